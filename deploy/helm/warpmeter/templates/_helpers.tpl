{{- define "warpmeter.name" -}}
{{- if contains "warpmeter" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-warpmeter" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "warpmeter.selector" -}}
app.kubernetes.io/name: warpmeter
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "warpmeter.labels" -}}
{{ include "warpmeter.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "warpmeter.image" -}}
{{- $image := .root.Values.image -}}
{{- with $image.registry }}{{ . }}/{{ end }}{{ index $image .which }}:{{ $image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{/* The secret of a part: its own, else that of all. */}}
{{- define "warpmeter.secret" -}}
{{- (index .root.Values .part).existingSecret | default .root.Values.existingSecret -}}
{{- end }}

{{/* Keys of the secret that a part reads: those of its settings, and of the page's tokens. */}}
{{- define "warpmeter.keys" -}}
{{- $values := index .root.Values .part -}}
{{- $keys := values $values.secretSettings -}}
{{- range $values.tokens }}{{ $keys = append $keys .key }}{{ end -}}
{{- $keys | uniq | sortAlpha | toJson -}}
{{- end }}

{{/* Settings that are none would be told by every pod, after the install; and each part that logs in needs its password. */}}
{{- define "warpmeter.settled" -}}
{{- $settings := fromToml (.Values.settings | default "") -}}
{{- with $settings.Error }}{{ fail (printf "settings is no TOML, as warpmeter.toml has to be: %s" .) }}{{ end -}}
{{- $options := dict -}}
{{- if and (kindIs "map" $settings.kafka) (kindIs "map" $settings.kafka.options) }}{{ $options = $settings.kafka.options }}{{ end -}}
{{- $mechanism := get $options "sasl.mechanism" | default (get $options "sasl.mechanisms") | toString | upper -}}
{{- $password := or (eq $mechanism "PLAIN") (hasPrefix "SCRAM-" $mechanism) -}}
{{- if and $password (hasPrefix "SASL" (get $options "security.protocol" | toString | upper)) (not (hasKey $options "sasl.password")) }}
{{- range $part := list "setup" "agent" "ingest" "scheduler" "web" }}
{{- $values := index $.Values $part }}
{{- $given := or (hasKey $values.secretSettings "WARPMETER_KAFKA__OPTIONS__SASL.PASSWORD") (hasKey $values.secretSettings "WARPMETER_KAFKA__OPTIONS") }}
{{- if and $values.enabled (not $given) }}
{{- fail (printf "%s has no password, and settings say %s: add WARPMETER_KAFKA__OPTIONS__SASL.PASSWORD to %s.secretSettings" $part $mechanism $part) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "warpmeter.needs" -}}
{{- include "warpmeter.settled" . -}}
{{- if not .Values.kafka.bootstrapServers }}{{ fail "kafka.bootstrapServers is empty: --set kafka.bootstrapServers=kafka-1:9092" }}{{ end -}}
{{- range $part := list "setup" "agent" "ingest" "scheduler" "web" }}
{{- $keys := include "warpmeter.keys" (dict "root" $ "part" $part) | fromJsonArray }}
{{- if and (index $.Values $part).enabled $keys (not (include "warpmeter.secret" (dict "root" $ "part" $part))) }}
{{- fail (printf "%s reads %s of a secret, and none is named: set existingSecret, or %s.existingSecret" $part (join ", " $keys) $part) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Variables of every part: where Kafka is, its own metrics, and the files that hold its secrets. */}}
{{- define "warpmeter.env" -}}
- { name: WARPMETER_CONFIG, value: /etc/warpmeter/warpmeter.toml }
- { name: WARPMETER_LOG__FORMAT, value: json }
- name: WARPMETER_KAFKA__BOOTSTRAP_SERVERS
  value: {{ .root.Values.kafka.bootstrapServers | quote }}
{{- range $variable, $key := (index .root.Values .part).secretSettings }}
- name: {{ printf "%s_FILE" $variable | quote }}
  value: /etc/warpmeter/secrets/{{ $key }}
{{- end }}
{{- end }}

{{- define "warpmeter.mounts" -}}
- { name: settings, mountPath: /etc/warpmeter/warpmeter.toml, subPath: warpmeter.toml, readOnly: true }
{{- if include "warpmeter.keys" . | fromJsonArray }}
- { name: secrets, mountPath: /etc/warpmeter/secrets, readOnly: true }
{{- end }}
{{- if .root.Values.certificates }}
- { name: certificates, mountPath: /etc/warpmeter/certificates, readOnly: true }
{{- end }}
- { name: tmp, mountPath: /tmp }
{{- end }}

{{- define "warpmeter.volumes" -}}
- name: settings
  configMap: { name: {{ .settings | default (printf "%s-settings" (include "warpmeter.name" .root)) }} }
{{- with include "warpmeter.keys" . | fromJsonArray }}
- name: secrets
  secret:
    secretName: {{ include "warpmeter.secret" $ }}
    defaultMode: 0440
    items:
      {{- range . }}
      - { key: {{ . }}, path: {{ . }} }
      {{- end }}
{{- end }}
{{- with .root.Values.certificates }}
- name: certificates
  configMap: { name: {{ . }} }
{{- end }}
- name: tmp
  emptyDir: { sizeLimit: {{ .tmp | default "256Mi" }} }
{{- end }}

{{/* What every pod of the servers has. */}}
{{- define "warpmeter.pod" -}}
{{- $values := index .root.Values .part -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- range $key := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $values $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- if and (not $values.affinity) (gt (int ($values.replicas | default 1)) 1) }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "warpmeter.selector" . | nindent 8 }}
{{- end }}
{{- end }}

{{- define "warpmeter.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* Another settings file is another pod: nothing reads its settings twice. */}}
{{- define "warpmeter.annotations" -}}
annotations:
  checksum/settings: {{ .root.Values.settings | sha256sum }}
  {{- with (index .root.Values .part).podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
