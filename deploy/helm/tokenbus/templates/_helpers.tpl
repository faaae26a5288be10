{{- define "tokenbus.name" -}}
{{- printf "%s-%s" .Release.Name "tokenbus" | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "tokenbus.labels" -}}
app.kubernetes.io/name: tokenbus
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "tokenbus.selector" -}}
app.kubernetes.io/name: tokenbus
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tokenbus.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end -}}

{{/* What every pod has. */}}
{{- define "tokenbus.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What every container has. The operator side stays on loopback; metrics and probes
have a port of their own. */}}
{{- define "tokenbus.container" -}}
image: {{ include "tokenbus.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
livenessProbe:
  httpGet: {path: /health, port: metrics}
  periodSeconds: 10
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /ready, port: metrics}
  periodSeconds: 2
{{- end -}}

{{/* How a part reaches the bus. */}}
{{- define "tokenbus.nats" -}}
- name: BUS_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ .Values.existingSecret | quote }}, key: password}
{{- if .Values.bus.enabled }}
{{- $host := printf "%s-bus" (include "tokenbus.name" .) }}
- name: TOKENBUS_NATS
  value: {{ printf "nats://tokenbus:$(BUS_PASSWORD)@%s:4222" $host | quote }}
{{- else }}
- name: TOKENBUS_NATS
  value: {{ required "bus.url is needed when bus.enabled is false" .Values.bus.url | quote }}
{{- end }}
- name: TOKENBUS_LOG_LEVEL
  value: {{ .Values.logLevel }}
{{- end -}}
