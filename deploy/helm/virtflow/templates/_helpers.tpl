{{/* Names and labels, the same everywhere. */}}
{{- define "virtflow.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "virtflow.labels" -}}
app.kubernetes.io/name: virtflow
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "virtflow.selector" -}}
app.kubernetes.io/name: virtflow
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "virtflow.secret" -}}
{{- .Values.existingSecret | default (include "virtflow.name" .) -}}
{{- end -}}

{{- define "virtflow.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "virtflow.name" .) -}}
{{- end -}}

{{/* What cannot be right, said before anything is installed. */}}
{{- define "virtflow.check" -}}
{{- if not (or .Values.existingSecret .Values.secret.databaseUrl) -}}
{{- fail "secret.databaseUrl is missing: postgresql://user:password@host/name, or existingSecret with the key databaseUrl" -}}
{{- end -}}
{{- $excluded := or .Values.selfExclusion.nodes .Values.selfExclusion.label .Values.selfExclusion.hosts -}}
{{- if and (eq .Values.mode "colocated") (not $excluded) -}}
{{- fail "mode=colocated needs selfExclusion: nodes, label or hosts; else VMs would be placed onto the machines that carry virtflow" -}}
{{- end -}}
{{- range $name := list "host" "port" "token" "role" "database_url" "broker_url" "inventory_url" "inventory_token" "election" "kubernetes_lease" "node_name" "self_hosts" "self_label" "strategy" "strategy_file" "log_format" -}}
{{- if hasKey $.Values.settings $name -}}
{{- fail (printf "settings.%s has a value of its own in this chart: see docs/deploy.md" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
