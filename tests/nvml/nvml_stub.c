/*
 * A stand-in for NVIDIA's libnvidia-ml.so.1, for hosts without a GPU.
 *
 * Everything it answers comes from one control file, mapped into memory and written by stub.py
 * while this library runs: what is set there is what the next call sees. The layout of the
 * structs of this file's first half is mirrored there (nvml_stub_control_size() guards it).
 *
 * The calls, their structs, versions and return codes are those of NVML's public interface, as
 * nvidia-ml-py (pynvml.py) declares them. A value that was never set is NVML_ERROR_NOT_SUPPORTED,
 * as on a GPU without it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_GPUS = 16, MAX_MIGS = 8, MAX_PROCESSES = 64, MAX_FIELDS = 320, MAX_GPM = 128, MAX_EVENTS = 16 };
enum { MAX_RULES = 96, MAX_FUNCTIONS = 160, MAGIC = 0x4e564d4c };

enum Key {
#define X(name) V_##name,
#include "values.def"
#undef X
    VALUES
};

/* ---- the control file ---------------------------------------------------------------------- */

enum Shape { UNSET, CONSTANT, SINE, RAMP, SQUARE };

typedef struct {
    int32_t error; /* returned in place of the value, if not 0 */
    int32_t shape;
    double a, b, c, d; /* constant a; sine a + b sin(2 pi (t / c + d)); ramp a + b t; square a or b, period c */
    uint64_t reads;
} Value;

enum Kind { ABSENT, COMPUTE, GRAPHICS, MPS };

typedef struct {
    uint32_t kind, pid;
    uint64_t used_bytes; /* all ones: not available */
    uint32_t gpu_instance, compute_instance; /* all ones: none */
    uint32_t sm_util, memory_util, encoder_util, decoder_util;
    uint64_t seen_us;
} Process;

typedef struct {
    char uuid[96], name[96];
    uint32_t present, gpu_instance, compute_instance, multiprocessors;
    uint64_t memory_mib;
    Value memory_total, memory_reserved, memory_used;
    Value gpm[MAX_GPM];
} Mig;

typedef struct {
    char uuid[96], name[96], bus_id[32], serial[32];
    uint32_t present, lost;
    Value values[VALUES];
    Value fields[MAX_FIELDS];
    Value gpm[MAX_GPM];
    Process processes[MAX_PROCESSES];
    Mig migs[MAX_MIGS];
} Gpu;

typedef struct {
    char function[64];
    int32_t active, gpu, error; /* gpu -1: any */
    int32_t pad;
    double hang_s;
} Rule;

typedef struct {
    char name[64];
    uint64_t calls[MAX_GPUS + 1]; /* the last: calls without a GPU */
} Function;

typedef struct {
    uint32_t gpu, gpu_instance, compute_instance, pad; /* instances all ones: none */
    uint64_t xid;
} Event;

typedef struct {
    uint32_t magic, generation; /* another generation than at nvmlInit: the driver was reloaded */
    int32_t init_error, pad;
    double epoch_s; /* zero of the values' time, CLOCK_MONOTONIC */
    double manual_s; /* the values' time, if not negative */
    char driver_version[80], nvml_version[80];
    uint64_t events_written, events_read;
    Event events[MAX_EVENTS];
    Rule rules[MAX_RULES];
    Function functions[MAX_FUNCTIONS];
    Gpu gpus[MAX_GPUS];
} Control;

/* ---- NVML's own types ---------------------------------------------------------------------- */

typedef int nvmlReturn_t;
enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15, VERSION_MISMATCH = 25
};

typedef struct { int gpu, mig; uint32_t generation; } Handle;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned pid; unsigned long long used; } ProcessV1;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } ProcessV2;
typedef struct { unsigned pid; unsigned long long time; unsigned sm, memory, encoder, decoder; } ProcessSample;
typedef struct { unsigned long long time; unsigned pid, sm, memory, encoder, decoder, jpeg, ofa; } ProcessUse;
typedef struct { unsigned version, count; unsigned long long since; ProcessUse *samples; } ProcessUses;
typedef struct { unsigned version, sensor; int temperature; } TemperatureV;
typedef struct { unsigned version; int margin; } Margin;
typedef struct { unsigned long long reference, violation; } Violation;
typedef union { double d; unsigned ui; unsigned long ul; unsigned long long ull; long long sll; int si; } Any;
typedef struct { unsigned id, scope; long long time, latency; unsigned type; int status; Any value; } FieldValue;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } PciInfo;
typedef struct { unsigned sms, copy, decoder, encoder, jpeg, ofa, gi_slices, ci_slices; unsigned long long mib; } Attributes;
typedef struct { Handle of; int gi; double at_s; int filled; } GpmSample;
typedef struct { unsigned id; int status; double value; const char *texts[3]; } GpmMetric;
typedef struct { unsigned version, count; GpmSample *first, *second; GpmMetric metrics[]; } GpmMetrics;
typedef struct { unsigned version, supported; } GpmSupport;
typedef struct { Handle *gpu; unsigned long long type, data; unsigned gi, ci; } EventData;

/* ---- one call ------------------------------------------------------------------------------ */

static Control *control;
static Handle handles[MAX_GPUS][MAX_MIGS + 1]; /* the last: the GPU itself */
static uint32_t initialised_in; /* generation; 0: not initialised */

size_t nvml_stub_control_size(void) { return sizeof(Control); }

/* Maps the control file; 0 when that worked. Called at nvmlInit with $NVML_STUB_CONTROL too. */
int nvml_stub_attach(const char *path) {
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return -1;
    void *mapped = mmap(NULL, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED || ((Control *)mapped)->magic != MAGIC) return -1;
    if (control) munmap(control, sizeof(Control));
    control = mapped;
    initialised_in = 0;
    return 0;
}

static void wait_seconds(double seconds) {
    struct timespec left = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    while (nanosleep(&left, &left)) {}
}

static double monotonic_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static double time_s(void) {
    return control->manual_s >= 0 ? control->manual_s : monotonic_s() - control->epoch_s;
}

static Function *registered(const char *name) {
    static char lock;
    Function *found = NULL;
    while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE)) {}
    for (int i = 0; i < MAX_FUNCTIONS && !found; i++) {
        Function *f = &control->functions[i];
        if (!f->name[0]) strncpy(f->name, name, sizeof f->name - 1);
        if (!strcmp(f->name, name)) found = f;
    }
    __atomic_clear(&lock, __ATOMIC_RELEASE);
    if (!found) { fprintf(stderr, "nvml_stub: more than %d functions\n", MAX_FUNCTIONS); abort(); }
    return found;
}

static nvmlReturn_t ruled(const char *function, int gpu) {
    for (int i = 0; i < MAX_RULES; i++) {
        Rule *rule = &control->rules[i];
        if (!rule->active || (rule->gpu >= 0 && rule->gpu != gpu) || strcmp(rule->function, function)) continue;
        double end = monotonic_s() + rule->hang_s; /* or until it is mended */
        while (rule->hang_s > 0 && monotonic_s() < end && __atomic_load_n(&rule->active, __ATOMIC_RELAXED)) wait_seconds(0.01);
        if (rule->error) return rule->error;
    }
    return SUCCESS;
}

static int valid(const Handle *handle) {
    const Handle *first = &handles[0][0];
    if (handle < first || handle >= first + MAX_GPUS * (MAX_MIGS + 1)) return 0;
    if (handle->generation != initialised_in || !control->gpus[handle->gpu].present) return 0;
    return handle->mig < 0 || control->gpus[handle->gpu].migs[handle->mig].present;
}

static nvmlReturn_t enter(const char *function, Function **cached, Control **of, const Handle *handle) {
    if (!control || !initialised_in || initialised_in != control->generation) return UNINITIALIZED;
    if (*of != control) { *cached = registered(function); *of = control; }
    int gpu = handle && valid(handle) ? handle->gpu : MAX_GPUS;
    __atomic_fetch_add(&(*cached)->calls[gpu], 1, __ATOMIC_RELAXED);
    nvmlReturn_t code = ruled(function, gpu);
    if (code || !handle) return code;
    if (gpu == MAX_GPUS) return INVALID_ARGUMENT;
    return control->gpus[gpu].lost ? GPU_IS_LOST : SUCCESS;
}

#define ENTER(handle) do { \
        static Function *cached; static Control *of; \
        nvmlReturn_t entered = enter(__func__, &cached, &of, handle); \
        if (entered) return entered; \
    } while (0)

static nvmlReturn_t at(Value *value, double t, double *out) {
    __atomic_fetch_add(&value->reads, 1, __ATOMIC_RELAXED);
    if (value->error) return value->error;
    switch (value->shape) {
    case CONSTANT: *out = value->a; return SUCCESS;
    case SINE: *out = value->a + value->b * sin(2 * M_PI * (t / value->c + value->d)); return SUCCESS;
    case RAMP: *out = value->a + value->b * t; return SUCCESS;
    case SQUARE: *out = fmod(t, value->c) < value->c / 2 ? value->a : value->b; return SUCCESS;
    default: return NOT_SUPPORTED;
    }
}

/* A plain value of a whole GPU; a MIG instance has none. */
static nvmlReturn_t plain(const Handle *handle, enum Key key, double *out) {
    if (handle->mig >= 0) return NOT_SUPPORTED;
    return at(&control->gpus[handle->gpu].values[key], time_s(), out);
}

static nvmlReturn_t plain_uint(const Handle *handle, enum Key key, unsigned *out) {
    double value;
    nvmlReturn_t code = plain(handle, key, &value);
    if (!code) *out = (unsigned)llround(value);
    return code;
}

static nvmlReturn_t plain_ull(const Handle *handle, enum Key key, unsigned long long *out) {
    double value;
    nvmlReturn_t code = plain(handle, key, &value);
    if (!code) *out = (unsigned long long)value;
    return code;
}

static nvmlReturn_t text(const char *from, char *to, unsigned size) {
    if (strlen(from) >= size) return INSUFFICIENT_SIZE;
    strcpy(to, from);
    return SUCCESS;
}

/* ---- library ------------------------------------------------------------------------------- */

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    const char *path = getenv("NVML_STUB_CONTROL");
    if (!control && (!path || nvml_stub_attach(path))) {
        fprintf(stderr, "nvml_stub: no control file at $NVML_STUB_CONTROL (%s)\n", path ? path : "unset");
        return DRIVER_NOT_LOADED;
    }
    __atomic_fetch_add(&registered("nvmlInitWithFlags")->calls[MAX_GPUS], 1, __ATOMIC_RELAXED);
    nvmlReturn_t code = ruled("nvmlInitWithFlags", MAX_GPUS);
    if (code || control->init_error) return code ? code : control->init_error;
    initialised_in = control->generation;
    return SUCCESS;
}
nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void) {
    ENTER(NULL);
    initialised_in = 0;
    return SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t code) { return code == SUCCESS ? "Success" : "Stub error"; }
nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned size) { ENTER(NULL); return text(control->driver_version, out, size); }
nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned size) { ENTER(NULL); return text(control->nvml_version, out, size); }
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out) { ENTER(NULL); *out = 13000; return SUCCESS; }

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
    ENTER(NULL);
    *count = 0;
    for (int i = 0; i < MAX_GPUS; i++) *count += control->gpus[i].present;
    return SUCCESS;
}

static nvmlReturn_t handle_of(int gpu, int mig, Handle **out) {
    if (control->gpus[gpu].lost) return GPU_IS_LOST;
    Handle *handle = &handles[gpu][mig < 0 ? MAX_MIGS : mig];
    *handle = (Handle){gpu, mig, initialised_in};
    *out = handle;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle **out) {
    ENTER(NULL);
    for (int i = 0; i < MAX_GPUS; i++)
        if (control->gpus[i].present && index-- == 0) {
            nvmlReturn_t code = ruled("nvmlDeviceGetHandleByIndex_v2", i);
            return code ? code : handle_of(i, -1, out);
        }
    return INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, Handle **out) {
    ENTER(NULL);
    for (int i = 0; i < MAX_GPUS; i++) {
        Gpu *gpu = &control->gpus[i];
        if (!gpu->present) continue;
        if (!strcmp(gpu->uuid, uuid)) return handle_of(i, -1, out);
        for (int m = 0; m < MAX_MIGS; m++)
            if (gpu->migs[m].present && !strcmp(gpu->migs[m].uuid, uuid)) return handle_of(i, m, out);
    }
    return NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, Handle **out) {
    ENTER(NULL);
    for (int i = 0; i < MAX_GPUS; i++)
        if (control->gpus[i].present && !strcasecmp(control->gpus[i].bus_id, bus_id)) return handle_of(i, -1, out);
    return NOT_FOUND;
}

/* ---- what a GPU is ------------------------------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetUUID(Handle *h, char *out, unsigned size) {
    ENTER(h);
    Gpu *gpu = &control->gpus[h->gpu];
    return text(h->mig < 0 ? gpu->uuid : gpu->migs[h->mig].uuid, out, size);
}
nvmlReturn_t nvmlDeviceGetName(Handle *h, char *out, unsigned size) {
    ENTER(h);
    Gpu *gpu = &control->gpus[h->gpu];
    return text(h->mig < 0 ? gpu->name : gpu->migs[h->mig].name, out, size);
}
nvmlReturn_t nvmlDeviceGetSerial(Handle *h, char *out, unsigned size) {
    ENTER(h);
    return control->gpus[h->gpu].serial[0] ? text(control->gpus[h->gpu].serial, out, size) : NOT_SUPPORTED;
}
nvmlReturn_t nvmlDeviceGetIndex(Handle *h, unsigned *out) {
    ENTER(h);
    if (h->mig >= 0) { *out = h->mig; return SUCCESS; }
    *out = 0;
    for (int i = 0; i < h->gpu; i++) *out += control->gpus[i].present;
    return SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPciInfo_v3(Handle *h, PciInfo *out) {
    ENTER(h);
    if (h->mig >= 0) return NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    const char *bus_id = control->gpus[h->gpu].bus_id;
    sscanf(bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    strncpy(out->bus_id, bus_id, sizeof out->bus_id - 1);
    snprintf(out->legacy, sizeof out->legacy, "%04X:%02X:%02X.0", out->domain & 0xffff, out->bus & 0xff, out->device & 0xff);
    return SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(Handle *h, int *major, int *minor) {
    ENTER(h);
    unsigned both;
    nvmlReturn_t code = plain_uint(h, V_compute_capability, &both);
    if (!code) { *major = both / 10; *minor = both % 10; }
    return code;
}

/* ---- plain values -------------------------------------------------------------------------- */

#define UINT(function, key) nvmlReturn_t function(Handle *h, unsigned *out) { ENTER(h); return plain_uint(h, V_##key, out); }
#define ULL(function, key) nvmlReturn_t function(Handle *h, unsigned long long *out) { ENTER(h); return plain_ull(h, V_##key, out); }
#define CODEC(function, key) \
    nvmlReturn_t function(Handle *h, unsigned *out, unsigned *period_us) { ENTER(h); *period_us = 167000; return plain_uint(h, V_##key, out); }

UINT(nvmlDeviceGetMinorNumber, minor_number)
UINT(nvmlDeviceGetNumaNodeId, numa_node)
UINT(nvmlDeviceGetArchitecture, architecture)
UINT(nvmlDeviceGetNumGpuCores, cores)
UINT(nvmlDeviceGetPersistenceMode, persistence_mode)
UINT(nvmlDeviceGetComputeMode, compute_mode)
UINT(nvmlDeviceGetPowerUsage, power)
UINT(nvmlDeviceGetEnforcedPowerLimit, power_limit)
UINT(nvmlDeviceGetPowerManagementLimit, power_management_limit)
UINT(nvmlDeviceGetPowerManagementDefaultLimit, power_default_limit)
UINT(nvmlDeviceGetPerformanceState, pstate)
UINT(nvmlDeviceGetPowerState, pstate)
UINT(nvmlDeviceGetFanSpeed, fan_speed)
UINT(nvmlDeviceGetNumFans, fans)
UINT(nvmlDeviceGetCurrPcieLinkGeneration, pcie_generation)
UINT(nvmlDeviceGetMaxPcieLinkGeneration, pcie_max_generation)
UINT(nvmlDeviceGetCurrPcieLinkWidth, pcie_width)
UINT(nvmlDeviceGetMaxPcieLinkWidth, pcie_max_width)
UINT(nvmlDeviceGetPcieReplayCounter, pcie_replays)
ULL(nvmlDeviceGetTotalEnergyConsumption, energy)
ULL(nvmlDeviceGetCurrentClocksEventReasons, event_reasons)
ULL(nvmlDeviceGetCurrentClocksThrottleReasons, event_reasons)
CODEC(nvmlDeviceGetEncoderUtilization, encoder_util)
CODEC(nvmlDeviceGetDecoderUtilization, decoder_util)
CODEC(nvmlDeviceGetJpgUtilization, jpeg_util)
CODEC(nvmlDeviceGetOfaUtilization, ofa_util)

nvmlReturn_t nvmlDeviceGetFanSpeed_v2(Handle *h, unsigned fan, unsigned *out) {
    ENTER(h);
    unsigned fans;
    nvmlReturn_t code = plain_uint(h, V_fans, &fans);
    if (code) return code;
    return fan < fans ? plain_uint(h, V_fan_speed, out) : INVALID_ARGUMENT;
}
nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(Handle *h, unsigned *least, unsigned *most) {
    ENTER(h);
    nvmlReturn_t code = plain_uint(h, V_power_min_limit, least);
    return code ? code : plain_uint(h, V_power_max_limit, most);
}
nvmlReturn_t nvmlDeviceGetClockInfo(Handle *h, unsigned type, unsigned *out) {
    ENTER(h);
    static const enum Key keys[] = {V_clock_graphics, V_clock_sm, V_clock_memory, V_clock_video};
    return type < 4 ? plain_uint(h, keys[type], out) : INVALID_ARGUMENT;
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(Handle *h, unsigned type, unsigned *out) {
    ENTER(h);
    static const enum Key keys[] = {V_max_clock_graphics, V_max_clock_sm, V_max_clock_memory, V_max_clock_video};
    return type < 4 ? plain_uint(h, keys[type], out) : INVALID_ARGUMENT;
}
nvmlReturn_t nvmlDeviceGetTemperature(Handle *h, unsigned sensor, unsigned *out) {
    ENTER(h);
    return sensor == 0 ? plain_uint(h, V_temperature, out) : INVALID_ARGUMENT;
}
nvmlReturn_t nvmlDeviceGetTemperatureV(Handle *h, TemperatureV *out) {
    ENTER(h);
    if (out->version != (sizeof *out | 1u << 24)) return VERSION_MISMATCH;
    return out->sensor == 0 ? plain_uint(h, V_temperature, (unsigned *)&out->temperature) : INVALID_ARGUMENT;
}
nvmlReturn_t nvmlDeviceGetMarginTemperature(Handle *h, Margin *out) {
    ENTER(h);
    if (out->version != (sizeof *out | 1u << 24)) return VERSION_MISMATCH;
    return plain_uint(h, V_margin_temperature, (unsigned *)&out->margin);
}
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(Handle *h, unsigned which, unsigned *out) {
    ENTER(h);
    static const enum Key keys[] = {V_threshold_shutdown, V_threshold_slowdown, V_threshold_memory_max, V_threshold_gpu_max};
    return which < 4 ? plain_uint(h, keys[which], out) : NOT_SUPPORTED;
}
nvmlReturn_t nvmlDeviceGetUtilizationRates(Handle *h, Utilization *out) {
    ENTER(h);
    nvmlReturn_t code = plain_uint(h, V_gpu_util, &out->gpu);
    return code ? code : plain_uint(h, V_memory_util, &out->memory);
}
/* The true call measures for 20 ms, so this one does. */
nvmlReturn_t nvmlDeviceGetPcieThroughput(Handle *h, unsigned counter, unsigned *out) {
    ENTER(h);
    wait_seconds(0.02);
    return counter < 2 ? plain_uint(h, counter == 0 ? V_pcie_tx : V_pcie_rx, out) : INVALID_ARGUMENT;
}
nvmlReturn_t nvmlDeviceGetViolationStatus(Handle *h, unsigned policy, Violation *out) {
    ENTER(h);
    if (policy > 1) return NOT_SUPPORTED;
    out->reference = (unsigned long long)(monotonic_s() * 1e6);
    return plain_ull(h, policy == 0 ? V_violation_power : V_violation_thermal, &out->violation);
}

/* ---- memory -------------------------------------------------------------------------------- */

static nvmlReturn_t memory_of(const Handle *h, Memory *out, unsigned long long *reserved) {
    Gpu *gpu = &control->gpus[h->gpu];
    Value *total = &gpu->values[V_memory_total], *kept = &gpu->values[V_memory_reserved], *used = &gpu->values[V_memory_used];
    if (h->mig >= 0) {
        Mig *mig = &gpu->migs[h->mig];
        total = &mig->memory_total, kept = &mig->memory_reserved, used = &mig->memory_used;
    }
    double t = time_s(), all, held = 0, taken;
    nvmlReturn_t code = at(total, t, &all);
    if (!code) code = at(used, t, &taken);
    if (code) return code;
    at(kept, t, &held);
    *out = (Memory){(unsigned long long)all, (unsigned long long)(all - held - taken), (unsigned long long)taken};
    *reserved = (unsigned long long)held;
    return SUCCESS;
}
/* The first version counts what the driver keeps as used. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(Handle *h, Memory *out) {
    ENTER(h);
    unsigned long long reserved;
    nvmlReturn_t code = memory_of(h, out, &reserved);
    if (!code) out->used += reserved;
    return code;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(Handle *h, MemoryV2 *out) {
    ENTER(h);
    if (out->version != (sizeof *out | 2u << 24)) return VERSION_MISMATCH;
    Memory memory;
    unsigned long long reserved;
    nvmlReturn_t code = memory_of(h, &memory, &reserved);
    if (!code) *out = (MemoryV2){out->version, memory.total, reserved, memory.free, memory.used};
    return code;
}
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(Handle *h, Memory *out) {
    ENTER(h);
    nvmlReturn_t code = plain_ull(h, V_bar1_total, &out->total);
    if (!code) code = plain_ull(h, V_bar1_used, &out->used);
    if (!code) out->free = out->total - out->used;
    return code;
}

/* ---- errors of memory ---------------------------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetEccMode(Handle *h, unsigned *current, unsigned *pending) {
    ENTER(h);
    nvmlReturn_t code = plain_uint(h, V_ecc_mode, current);
    if (!code) *pending = *current;
    return code;
}
nvmlReturn_t nvmlDeviceGetTotalEccErrors(Handle *h, unsigned type, unsigned counter, unsigned long long *out) {
    ENTER(h);
    if (type > 1 || counter > 1) return INVALID_ARGUMENT;
    static const enum Key keys[2][2] = {{V_ecc_corrected_volatile, V_ecc_corrected_aggregate},
                                        {V_ecc_uncorrected_volatile, V_ecc_uncorrected_aggregate}};
    return plain_ull(h, keys[type][counter], out);
}
/* Locations: 2 device memory (DRAM), 7 SRAM. */
nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(Handle *h, unsigned type, unsigned counter, unsigned location, unsigned long long *out) {
    ENTER(h);
    if (type > 1 || counter > 1 || location > 7) return INVALID_ARGUMENT;
    if (counter != 0 || (location != 2 && location != 7)) return NOT_SUPPORTED;
    static const enum Key keys[2][2] = {{V_ecc_corrected_dram, V_ecc_corrected_sram},
                                        {V_ecc_uncorrected_dram, V_ecc_uncorrected_sram}};
    return plain_ull(h, keys[type][location == 7], out);
}
nvmlReturn_t nvmlDeviceGetRemappedRows(Handle *h, unsigned *correctable, unsigned *uncorrectable, unsigned *pending, unsigned *failure) {
    ENTER(h);
    nvmlReturn_t code = plain_uint(h, V_remapped_correctable, correctable);
    if (!code) code = plain_uint(h, V_remapped_uncorrectable, uncorrectable);
    if (!code) code = plain_uint(h, V_remapped_pending, pending);
    return code ? code : plain_uint(h, V_remapped_failure, failure);
}
nvmlReturn_t nvmlDeviceGetRetiredPages(Handle *h, unsigned cause, unsigned *count, unsigned long long *addresses) {
    ENTER(h);
    unsigned pages;
    nvmlReturn_t code = plain_uint(h, cause == 0 ? V_retired_single_bit : V_retired_double_bit, &pages);
    if (code) return code;
    unsigned room = *count;
    *count = pages;
    if (room < pages) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; addresses && i < pages; i++) addresses[i] = i;
    return SUCCESS;
}

/* ---- NVLink -------------------------------------------------------------------------------- */

/* The last links are down; a link beyond them does not exist. */
static nvmlReturn_t link_of(const Handle *h, unsigned link, unsigned *up) {
    unsigned links, down = 0;
    nvmlReturn_t code = plain_uint(h, V_nvlinks, &links);
    if (code) return code;
    if (link >= links) return INVALID_ARGUMENT;
    plain_uint(h, V_nvlinks_down, &down);
    *up = link < links - down;
    return SUCCESS;
}
nvmlReturn_t nvmlDeviceGetNvLinkState(Handle *h, unsigned link, unsigned *out) { ENTER(h); return link_of(h, link, out); }
nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(Handle *h, unsigned link, unsigned counter, unsigned long long *out) {
    ENTER(h);
    static const enum Key keys[] = {V_nvlink_replay, V_nvlink_recovery, V_nvlink_crc_flit};
    unsigned up;
    nvmlReturn_t code = counter < 3 ? link_of(h, link, &up) : INVALID_ARGUMENT;
    return code ? code : plain_ull(h, keys[counter], out);
}

/* ---- field values -------------------------------------------------------------------------- */

/* NVML_VALUE_TYPE_*: 1 is unsigned int, 3 unsigned long long, the type of most counters. */
static unsigned field_type(unsigned id) {
    switch (id) {
    case 82: case 90: case 91: case 142: case 143: case 144: case 145:
    case 185: case 186: case 187: case 188: case 189: case 190: case 192: case 230: return 1;
    default: return 3;
    }
}
static void field(Gpu *gpu, FieldValue *out) {
    double value;
    out->status = out->id < MAX_FIELDS ? at(&gpu->fields[out->id], time_s(), &value) : NOT_SUPPORTED;
    out->time = (long long)(monotonic_s() * 1e6);
    out->latency = 0;
    out->type = field_type(out->id);
    if (out->status) return;
    if (out->type == 1) out->value.ui = (unsigned)llround(value);
    else out->value.ull = (unsigned long long)value;
}
nvmlReturn_t nvmlDeviceGetFieldValues(Handle *h, int count, FieldValue *out) {
    ENTER(h);
    if (count < 1 || !out) return INVALID_ARGUMENT;
    if (h->mig >= 0) return NOT_SUPPORTED;
    for (int i = 0; i < count; i++) field(&control->gpus[h->gpu], &out[i]);
    return SUCCESS;
}

/* ---- processes ----------------------------------------------------------------------------- */

static int on_handle(const Handle *h, const Process *p) {
    if (h->mig < 0) return 1;
    Mig *mig = &control->gpus[h->gpu].migs[h->mig];
    return p->gpu_instance == mig->gpu_instance && p->compute_instance == mig->compute_instance;
}
static nvmlReturn_t processes(const Handle *h, uint32_t kind, unsigned *count, void *out, int version) {
    unsigned room = *count, found = 0;
    for (int i = 0; i < MAX_PROCESSES; i++) {
        Process *p = &control->gpus[h->gpu].processes[i];
        if (p->kind != kind || !on_handle(h, p)) continue;
        if (found < room && out) {
            if (version == 1) ((ProcessV1 *)out)[found] = (ProcessV1){p->pid, p->used_bytes};
            else ((ProcessV2 *)out)[found] = (ProcessV2){p->pid, p->used_bytes, p->gpu_instance, p->compute_instance};
        }
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}
#define PROCESSES(name, kind) \
    nvmlReturn_t name(Handle *h, unsigned *count, void *out) { ENTER(h); return processes(h, kind, count, out, 1); } \
    nvmlReturn_t name##_v2(Handle *h, unsigned *count, void *out) { ENTER(h); return processes(h, kind, count, out, 2); } \
    nvmlReturn_t name##_v3(Handle *h, unsigned *count, void *out) { ENTER(h); return processes(h, kind, count, out, 3); }
PROCESSES(nvmlDeviceGetComputeRunningProcesses, COMPUTE)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, GRAPHICS)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, MPS)

/* Did something after `since`, in microseconds of UTC; as of 1: all the time. */
static int worked(const Process *p, unsigned long long since) {
    if (!p->kind || !(p->sm_util | p->memory_util | p->encoder_util | p->decoder_util)) return 0;
    return p->seen_us == 1 || p->seen_us > since;
}
static int cut(const Handle *h) {
    unsigned mig = 0;
    return h->mig >= 0 || (!plain_uint(h, V_mig_mode, &mig) && mig);
}
nvmlReturn_t nvmlDeviceGetProcessUtilization(Handle *h, ProcessSample *out, unsigned *count, unsigned long long since) {
    ENTER(h);
    if (cut(h)) return NOT_SUPPORTED;
    unsigned room = *count, found = 0;
    for (int i = 0; i < MAX_PROCESSES; i++) {
        Process *p = &control->gpus[h->gpu].processes[i];
        if (!worked(p, since)) continue;
        if (out && found < room)
            out[found] = (ProcessSample){p->pid, p->seen_us, p->sm_util, p->memory_util, p->encoder_util, p->decoder_util};
        found++;
    }
    *count = found;
    if (!found) return NOT_FOUND;
    return out && found <= room ? SUCCESS : INSUFFICIENT_SIZE;
}
nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(Handle *h, ProcessUses *out) {
    ENTER(h);
    if (out->version != (sizeof *out | 1u << 24)) return VERSION_MISMATCH;
    if (cut(h)) return NOT_SUPPORTED;
    unsigned room = out->count, found = 0;
    for (int i = 0; i < MAX_PROCESSES; i++) {
        Process *p = &control->gpus[h->gpu].processes[i];
        if (!worked(p, out->since)) continue;
        if (out->samples && found < room)
            out->samples[found] = (ProcessUse){p->seen_us, p->pid, p->sm_util, p->memory_util, p->encoder_util, p->decoder_util, 0, 0};
        found++;
    }
    out->count = found;
    if (!found) return NOT_FOUND;
    return out->samples && found <= room ? SUCCESS : INSUFFICIENT_SIZE;
}

/* ---- MIG ----------------------------------------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetMigMode(Handle *h, unsigned *current, unsigned *pending) {
    ENTER(h);
    nvmlReturn_t code = plain_uint(h, V_mig_mode, current);
    if (!code) *pending = *current;
    return code;
}
nvmlReturn_t nvmlDeviceIsMigDeviceHandle(Handle *h, unsigned *out) { ENTER(h); *out = h->mig >= 0; return SUCCESS; }
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(Handle *h, unsigned *out) { ENTER(h); *out = MAX_MIGS - 1; return SUCCESS; }
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(Handle *h, unsigned index, Handle **out) {
    ENTER(h);
    if (index >= MAX_MIGS) return INVALID_ARGUMENT;
    return control->gpus[h->gpu].migs[index].present ? handle_of(h->gpu, (int)index, out) : NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Handle *h, Handle **out) {
    ENTER(h);
    return h->mig >= 0 ? handle_of(h->gpu, -1, out) : INVALID_ARGUMENT;
}
nvmlReturn_t nvmlDeviceGetGpuInstanceId(Handle *h, unsigned *out) {
    ENTER(h);
    if (h->mig < 0) return INVALID_ARGUMENT;
    *out = control->gpus[h->gpu].migs[h->mig].gpu_instance;
    return SUCCESS;
}
nvmlReturn_t nvmlDeviceGetComputeInstanceId(Handle *h, unsigned *out) {
    ENTER(h);
    if (h->mig < 0) return INVALID_ARGUMENT;
    *out = control->gpus[h->gpu].migs[h->mig].compute_instance;
    return SUCCESS;
}
nvmlReturn_t nvmlDeviceGetAttributes_v2(Handle *h, Attributes *out) {
    ENTER(h);
    if (h->mig < 0) return INVALID_ARGUMENT;
    Mig *mig = &control->gpus[h->gpu].migs[h->mig];
    *out = (Attributes){mig->multiprocessors, 1, 1, 0, 1, 0, 1, 1, mig->memory_mib};
    return SUCCESS;
}

/* ---- GPM ----------------------------------------------------------------------------------- */

nvmlReturn_t nvmlGpmQueryDeviceSupport(Handle *h, GpmSupport *out) {
    ENTER(h);
    if (out->version != 1) return VERSION_MISMATCH;
    return plain_uint(h, V_gpm_supported, &out->supported);
}
nvmlReturn_t nvmlGpmSampleAlloc(GpmSample **out) {
    ENTER(NULL);
    *out = calloc(1, sizeof **out);
    return SUCCESS;
}
nvmlReturn_t nvmlGpmSampleFree(GpmSample *sample) { free(sample); return SUCCESS; }
nvmlReturn_t nvmlGpmSampleGet(Handle *h, GpmSample *sample) {
    ENTER(h);
    unsigned supported;
    nvmlReturn_t code = plain_uint(h, V_gpm_supported, &supported);
    if (code || !supported) return code ? code : NOT_SUPPORTED;
    *sample = (GpmSample){*h, -1, time_s(), 1};
    return SUCCESS;
}
nvmlReturn_t nvmlGpmMigSampleGet(Handle *h, unsigned gpu_instance, GpmSample *sample) {
    ENTER(h);
    *sample = (GpmSample){*h, (int)gpu_instance, time_s(), 1};
    return SUCCESS;
}
static Value *gpm_values(const GpmSample *sample) {
    Gpu *gpu = &control->gpus[sample->of.gpu];
    if (sample->gi < 0) return gpu->gpm;
    for (int m = 0; m < MAX_MIGS; m++)
        if (gpu->migs[m].present && gpu->migs[m].gpu_instance == (unsigned)sample->gi) return gpu->migs[m].gpm;
    return NULL;
}
/* A metric is the mean between two samples; here its value half-way. */
nvmlReturn_t nvmlGpmMetricsGet(GpmMetrics *out) {
    ENTER(NULL);
    if (out->version != 1) return VERSION_MISMATCH;
    GpmSample *first = out->first, *second = out->second;
    if (!first || !second || !first->filled || !second->filled) return INVALID_ARGUMENT;
    if (first->of.gpu != second->of.gpu || first->gi != second->gi) return INVALID_ARGUMENT;
    if (control->gpus[first->of.gpu].lost) return GPU_IS_LOST;
    Value *values = gpm_values(second);
    if (!values) return INVALID_ARGUMENT;
    for (unsigned i = 0; i < out->count; i++) {
        GpmMetric *metric = &out->metrics[i];
        metric->value = 0;
        metric->status = metric->id < MAX_GPM ? at(&values[metric->id], (first->at_s + second->at_s) / 2, &metric->value) : INVALID_ARGUMENT;
    }
    return SUCCESS;
}

/* ---- events: XIDs -------------------------------------------------------------------------- */

/* A set is the GPUs registered with it. */
nvmlReturn_t nvmlEventSetCreate(void **set) { ENTER(NULL); *set = calloc(MAX_GPUS, 1); return SUCCESS; }
nvmlReturn_t nvmlEventSetFree(void *set) { free(set); return SUCCESS; }
nvmlReturn_t nvmlDeviceGetSupportedEventTypes(Handle *h, unsigned long long *out) { ENTER(h); *out = 8; return SUCCESS; }
nvmlReturn_t nvmlDeviceRegisterEvents(Handle *h, unsigned long long types, void *set) {
    ENTER(h);
    if (!set || !(types & 8)) return INVALID_ARGUMENT;
    ((char *)set)[h->gpu] = 1;
    return SUCCESS;
}
nvmlReturn_t nvmlEventSetWait_v2(void *set, EventData *out, unsigned timeout_ms) {
    ENTER(NULL);
    if (!set) return INVALID_ARGUMENT;
    double until = monotonic_s() + timeout_ms / 1e3;
    for (;;) {
        Event *next = control->events_read == control->events_written ? NULL : &control->events[control->events_read % MAX_EVENTS];
        if (next && control->gpus[next->gpu].lost) break;
        for (int i = 0; i < MAX_GPUS; i++)
            if (((char *)set)[i] && control->gpus[i].lost) return GPU_IS_LOST; /* nothing else while one is lost */
        if (next) break;
        double left = until - monotonic_s();
        if (left <= 0) return TIMEOUT;
        wait_seconds(left < 0.02 ? left : 0.02);
    }
    Event *event = &control->events[control->events_read++ % MAX_EVENTS];
    if (!((char *)set)[event->gpu]) return TIMEOUT;
    Handle *handle = &handles[event->gpu][MAX_MIGS];
    *out = (EventData){handle, 8, event->xid, event->gpu_instance, event->compute_instance};
    return SUCCESS;
}
