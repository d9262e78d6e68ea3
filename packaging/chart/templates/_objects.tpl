{{- /*
authgate.object returns one object of a file in manifests/, as YAML. Its argument is a dict with root, file,
kind and name. An object that is not there is an error.
*/ -}}
{{- define "authgate.object" -}}
{{- $found := dict -}}
{{- range regexSplit "(?m)^---$" (.root.Files.Get (print "manifests/" .file)) -1 -}}
  {{- $object := fromYaml . -}}
  {{- if and (eq $object.kind $.kind) (eq $object.metadata.name $.name) -}}
    {{- $found = $object -}}
  {{- end -}}
{{- end -}}
{{- if not $found -}}
  {{- fail (printf "manifests/%s has no %s %s" .file .kind .name) -}}
{{- end -}}
{{- $_ := set $found.metadata.labels "app.kubernetes.io/instance" .root.Release.Name -}}
{{- $_ := set $found.metadata.labels "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- $_ := set $found.metadata.labels "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- toYaml $found -}}
{{- end -}}
