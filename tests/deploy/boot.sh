#!/bin/bash
# Start systemd as the first process of a copy of this machine, run a script there as a unit, and end:
#   unshare --mount --pid --net --ipc --uts --fork boot.sh FOLDER
# FOLDER/script is what runs; what it writes into /out is in FOLDER/out. All else that is written is thrown away. The copy has
# this machine's /usr and /etc, its own /run, /tmp, /var/lib/warpmeter and network, and none of its services.
set -e
# A control group of its own, and that for the root of all.
if [ -z "${BOOTING:-}" ]; then
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    group=$(mktemp -d /sys/fs/cgroup/booted-XXXXXX) && echo 0 > "$group/cgroup.procs"
  fi
  BOOTING=yes exec unshare --cgroup bash "$0" "$@"
fi
folder=$(realpath "$1")
mount --make-rprivate /
mkdir -p "$folder/out"
scratch=$(mktemp -d)
mount -t tmpfs scratch "$scratch"
mkdir "$scratch"/{upper,work,new}
mount -t overlay overlay -o "lowerdir=/,upperdir=$scratch/upper,workdir=$scratch/work" "$scratch/new"
cd "$scratch/new"
mkdir -p out given
mount --bind "$folder/out" out
mount --bind "$folder" given
[ -z "$SITE" ] || { mkdir -p site src && mount --bind "$SITE" site && mount --bind "$SOURCE" src; }
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs dev dev
for name in null zero urandom random full tty; do
  touch "dev/$name" && mount --bind "/dev/$name" "dev/$name"
done
mkdir dev/shm dev/pts
mount -t devpts devpts dev/pts -o newinstance,ptmxmode=666
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
touch out/console dev/console && mount --bind out/console dev/console
mount -t tmpfs run run
mount -t tmpfs tmp tmp
rm -rf var/lib/warpmeter etc/warpmeter etc/systemd/system
mkdir -p etc/systemd/system sys/fs/cgroup
: > etc/machine-id
# cgroups as this machine has them; systemd needs its own hierarchy where that is the old kind.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  mount -t cgroup2 cgroup2 sys/fs/cgroup
else
  mount -t tmpfs cgroup sys/fs/cgroup
  mkdir sys/fs/cgroup/systemd && mount -t cgroup -o none,name=systemd systemd sys/fs/cgroup/systemd
fi
ip link set lo up
cat > etc/systemd/system/story.service << UNIT
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/bin/bash /given/script
ExecStopPost=/bin/bash -c 'echo "\$SERVICE_RESULT" > /out/result'
ExecStopPost=+/bin/kill -s RTMIN+4 1
StandardOutput=file:/out/said
StandardError=inherit
UNIT
# What units of the story wait for is there already.
for target in sysinit basic network-online; do
  printf '[Unit]\nDefaultDependencies=no\n' > "etc/systemd/system/$target.target"
done
ln -s /dev/null etc/systemd/system/modprobe@nvidia.service
mkdir old && pivot_root . old && cd / && umount -l /old
mount --make-rshared / # a service's credentials are mounted by a process that hands the mount on
exec env -i container=warpmeter-test SYSTEMD_LOG_TARGET=console /lib/systemd/systemd --system --unit=story.service --show-status=no
