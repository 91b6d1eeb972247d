{{/* What the pods of nodes and of Jobs have alike. */}}

{{- define "penstock.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "penstock.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* How the command line reaches the cluster, as the first user. */}}
{{- define "penstock.clientEnv" -}}
- name: PENSTOCK_BOOTSTRAP
  value: {{ include "penstock.service" . }}:9192
{{- if .Values.security.enabled }}
- name: PENSTOCK_TLS_CA
  value: /etc/penstock/tls/ca.pem
- name: PENSTOCK_USERNAME
  value: {{ .Values.security.admin.username | quote }}
- name: PENSTOCK_PASSWORD_FILE
  value: /etc/penstock/admin/password
{{- end }}
{{- end }}

{{- define "penstock.clientMounts" -}}
{{- if .Values.security.enabled }}
- {name: tls, mountPath: /etc/penstock/tls, readOnly: true}
- {name: admin, mountPath: /etc/penstock/admin, readOnly: true}
{{- end }}
{{- end }}

{{- define "penstock.adminVolume" -}}
- name: admin
  secret: {secretName: {{ .Values.security.admin.secretName }}, defaultMode: 0440}
{{- end }}

{{/* The node whose Secret of cert-manager has the CA for clients: the first one. */}}
{{- define "penstock.caSecret" -}}
{{- with .Values.security.tls.secretName -}}{{ . }}{{- else -}}
{{- printf "%s-tls" (include "penstock.nodes" . | fromJsonArray | first).pod -}}
{{- end -}}
{{- end }}

{{/* The CA alone, for clients. */}}
{{- define "penstock.caVolume" -}}
- name: tls
  secret:
    secretName: {{ include "penstock.caSecret" . }}
    defaultMode: 0440
    items: [{key: {{ ternary "ca.pem" "ca.crt" (ne .Values.security.tls.secretName "") }}, path: ca.pem}]
{{- end }}

{{/* The certificates of a pool's nodes. Sources are named for up to the next full ten, so that a new node changes no
     pod that runs. Given: root, pool. */}}
{{- define "penstock.tlsVolume" -}}
{{- $root := .root -}}
{{- $pool := .pool -}}
- name: tls
{{- with $root.Values.security.tls.secretName }}
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- else }}
  projected:
    defaultMode: 0440
    sources:
      - secret:
          name: {{ include "penstock.caSecret" $root }}
          items: [{key: ca.crt, path: ca.pem}]
      {{- range $at := until (int (mul 10 (ceil (divf $pool.replicas 10)))) }}
      {{- $id := add (int $pool.firstNodeId) $at }}
      - secret:
          name: {{ $pool.fullname }}-{{ $id }}-tls
          items: [{key: tls-combined.pem, path: node-{{ $id }}.pem}]
          optional: true
      {{- end }}
{{- end }}
{{- end }}

{{/* The pod of a Job that talks to the cluster. Given: root, name. */}}
{{- define "penstock.jobPod" -}}
restartPolicy: OnFailure
automountServiceAccountToken: false
serviceAccountName: {{ include "penstock.fullname" .root }}
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext:
  {{- include "penstock.podSecurity" .root | nindent 2 }}
{{- end }}

{{/* A container that runs one command. Given: root, name, args (a list), and perhaps mounts (a text). */}}
{{- define "penstock.commandContainer" -}}
- name: {{ .name }}
  image: {{ include "penstock.image" .root }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  args: {{ toJson .args }}
  env:
    {{- include "penstock.clientEnv" .root | nindent 4 }}
  securityContext:
    {{- include "penstock.containerSecurity" .root | nindent 4 }}
  resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 256Mi}}
  {{- $mounts := printf "%s\n%s" (include "penstock.clientMounts" .root) (.mounts | default "") | trim }}
  {{- with $mounts }}
  volumeMounts:
    {{- . | nindent 4 }}
  {{- end }}
{{- end }}
