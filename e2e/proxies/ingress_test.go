package proxies

import (
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/goccy/go-yaml"
)

// These tests run the objects of docs/deploy/kubernetes-forward-auth without a cluster: they
// write the configuration that an ingress controller makes of them.

// ingressObject is an object of Kubernetes, as far as these tests read it.
type ingressObject struct {
	Kind     string
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Data map[string]string
	Spec yaml.MapSlice
}

// ingressObjects returns the objects of a file by kind and name, of which there are at least two.
func ingressObjects(t *testing.T, file string) map[string]ingressObject {
	t.Helper()
	all := map[string]ingressObject{}
	text := world.ReadFile(t, world.Path("docs/deploy/kubernetes-forward-auth/"+file))
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var o ingressObject
		if decoder.Decode(&o) != nil {
			break
		}
		all[o.Kind+" "+o.Metadata.Name] = o
	}
	if len(all) < 2 {
		t.Fatalf("%s has %d objects", file, len(all))
	}
	return all
}

// spec decodes a part of an object's spec.
func spec[T any](t *testing.T, o ingressObject) (decoded T) {
	t.Helper()
	text := world.Must(yaml.Marshal(o.Spec))(t)
	world.NoError(t, yaml.Unmarshal(text, &decoded))
	return decoded
}

// asked returns the address that is asked, with that of the test.
func asked(t *testing.T, address, gate string) string {
	t.Helper()
	u := world.Must(url.Parse(address))(t)
	u.Host = gate
	return u.String()
}

// ingressNginx runs nginx with what the template of ingress-nginx, as of July 2024, makes of
// the annotations.
func ingressNginx(t *testing.T, files map[string]string, dir, address string) *exec.Cmd {
	t.Helper()
	const annotation = "nginx.ingress.kubernetes.io/"
	objects := ingressObjects(t, "ingress-nginx.yaml")
	app := objects["Ingress app"].Metadata.Annotations
	question, pass := "", ""
	_, configMap, _ := strings.Cut(app[annotation+"auth-proxy-set-headers"], "/")
	for name, value := range objects["ConfigMap "+configMap].Data {
		question += fmt.Sprintf("      proxy_set_header '%s' '%s';\n", name, value)
	}
	for i, name := range strings.Split(app[annotation+"auth-response-headers"], ",") {
		variable := strings.ToLower(strings.ReplaceAll(name, "-", "_"))
		pass += fmt.Sprintf("      auth_request_set $authHeader%d $upstream_http_%s;\n"+
			"      proxy_set_header '%s' $authHeader%[1]d;\n", i, variable, name)
	}
	own := ""
	for _, rule := range spec[struct{ Rules []struct{ Host string } }](t, objects["Ingress authgate-verify"]).Rules {
		if rule.Host == "app.example.org" {
			own = "    location = /.authgate/verify { deny all; }\n" +
				"    location /.authgate/ { include forwarded.conf; proxy_pass http://GATE; }\n"
		}
	}
	files["nginx.conf"] = world.Substituted(t, ingressTemplate,
		"ASKED", asked(t, app[annotation+"auth-url"], files["GATE"]),
		"SIGNIN", app[annotation+"auth-signin"]+"?"+app[annotation+"auth-signin-redirect-param"],
		"QUESTION", question, "PASS", pass, "OWN", strings.ReplaceAll(own, "GATE", files["GATE"]),
		"GATE", files["GATE"], "APP", files["APP"])
	files["forwarded.conf"] = ingressForwarded
	return nginx(t, files, dir, address)
}

// ingressForwarded is what every request gets on its way.
const ingressForwarded = `proxy_http_version 1.1;
proxy_set_header Host                     $http_host;
proxy_set_header Upgrade                  $http_upgrade;
proxy_set_header Connection               $connection_upgrade;
proxy_set_header X-Real-IP                $remote_addr;
proxy_set_header X-Forwarded-For          $remote_addr;
proxy_set_header X-Forwarded-Host         $http_host;
proxy_set_header X-Forwarded-Proto        $scheme;
proxy_set_header X-Forwarded-Scheme       $scheme;
proxy_set_header X-Scheme                 $scheme;
proxy_set_header X-Original-Forwarded-For $http_x_forwarded_for;
proxy_set_header Proxy                    "";
`

// ingressTemplate writes $escaped_request_uri, which a module of the controller computes, for
// the pages that the tests visit.
const ingressTemplate = `events {}
http {
  ssl_certificate     /etc/nginx/tls/fullchain.pem;
  ssl_certificate_key /etc/nginx/tls/privkey.pem;
  map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
  map $request_uri $escaped_request_uri {
    "/page?a=%2Fb&c" "%2Fpage%3Fa%3D%252Fb%26c";
    default          $request_uri;
  }
  server {
    listen 443 ssl;
    server_name auth.example.org;
    location = /.authgate/verify { deny all; }
    location / { include forwarded.conf; proxy_pass http://GATE; }
  }
  server {
    listen 443 ssl;
    server_name app.example.org;
OWN    location = /_external-auth {
      internal;
      proxy_pass_request_body off;
      proxy_set_header Content-Length          "";
      proxy_set_header X-Forwarded-Proto       "";
      proxy_set_header Host                    authgate.default.svc.cluster.local;
      proxy_set_header X-Original-URL          $scheme://$http_host$request_uri;
      proxy_set_header X-Original-Method       $request_method;
      proxy_set_header X-Sent-From             "nginx-ingress-controller";
      proxy_set_header X-Real-IP               $remote_addr;
      proxy_set_header X-Forwarded-For         $remote_addr;
      proxy_set_header X-Auth-Request-Redirect $request_uri;
QUESTION      proxy_http_version 1.1;
      proxy_pass ASKED;
    }
    location @signin {
      internal;
      add_header Set-Cookie $auth_cookie;
      return 302 SIGNIN=$scheme://$http_host$escaped_request_uri;
    }
    location / {
      auth_request /_external-auth;
      auth_request_set $auth_cookie $upstream_http_set_cookie;
      add_header Set-Cookie $auth_cookie always;
      error_page 401 = @signin;
      include forwarded.conf;
PASS      proxy_pass http://APP;
    }
  }
}
`
