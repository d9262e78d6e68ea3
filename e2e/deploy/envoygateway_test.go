package deploy

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// The types of Envoy Gateway 1.9.1, as far as the example has fields of them.
type (
	envoyTarget struct {
		Group string `json:"group"`
		Kind  string `json:"kind"`
		Name  string `json:"name"`
	}
	envoySecurityPolicy struct {
		TargetRefs []envoyTarget `json:"targetRefs"`
		ExtAuth    struct {
			FailOpen         bool     `json:"failOpen"`
			HeadersToExtAuth []string `json:"headersToExtAuth"`
			HTTP             struct {
				PathOverride     string           `json:"pathOverride"`
				BackendRefs      []traefikService `json:"backendRefs"`
				HeadersToBackend []string         `json:"headersToBackend"`
			} `json:"http"`
		} `json:"extAuth"`
	}
	envoyClientPolicy struct {
		TargetRefs []envoyTarget `json:"targetRefs"`
		Path       struct {
			EscapedSlashesAction string `json:"escapedSlashesAction"`
			DisableMergeSlashes  bool   `json:"disableMergeSlashes"`
		} `json:"path"`
		Headers struct {
			WithUnderscoresAction string `json:"withUnderscoresAction"`
			EarlyRequestHeaders   struct {
				Set           []struct{ Name, Value string } `json:"set"`
				RemoveOnMatch []struct{ Type, Value string } `json:"removeOnMatch"`
			} `json:"earlyRequestHeaders"`
		} `json:"headers"`
	}
	envoyRouteFilter struct {
		DirectResponse struct {
			StatusCode int `json:"statusCode"`
		} `json:"directResponse"`
	}
)

func envoyGatewaySays(t *testing.T, all *manifests) said {
	t.Helper()
	ask := as[envoySecurityPolicy](t, all, "SecurityPolicy", "app")
	clients := as[envoyClientPolicy](t, all, "ClientTrafficPolicy", "authgate")
	same(t, "what is asked about", ask.TargetRefs, []envoyTarget{{"gateway.networking.k8s.io", "HTTPRoute", "app"}})
	if ask.ExtAuth.FailOpen || clients.Headers.WithUnderscoresAction != "RejectRequest" ||
		clients.Path.EscapedSlashesAction != "KeepUnchanged" || !clients.Path.DisableMergeSlashes {
		t.Error("a gateway that does not answer lets requests through, or Envoy changes what it asked about")
	}
	for _, name := range append(slices.Clone(identityNames), "X-Original-URL", "X-Original-Method", "X.Auth.User") {
		removed := func(m struct{ Type, Value string }) bool {
			return m.Type == "RegularExpression" &&
				regexp.MustCompile("^(?:"+m.Value+")$").MatchString(strings.ToLower(name))
		}
		if !slices.ContainsFunc(clients.Headers.EarlyRequestHeaders.RemoveOnMatch, removed) {
			t.Errorf("a client can send %s", name)
		}
	}
	for _, set := range clients.Headers.EarlyRequestHeaders.Set {
		if !slices.Contains(ask.ExtAuth.HeadersToExtAuth, set.Name) {
			t.Errorf("the question does not have %s", set.Name)
		}
	}
	s := said{headers: ask.ExtAuth.HTTP.HeadersToBackend, service: map[string]int32{}}
	s.asked = strings.Replace(exampleVerify, examplePrefix+"verify", ask.ExtAuth.HTTP.PathOverride, 1)
	same(t, "who is asked", ask.ExtAuth.HTTP.BackendRefs, []traefikService{{"authgate", 8080}})
	for _, name := range []string{"app", "authgate"} {
		route := object[*gatewayv1.HTTPRoute](all, name).Spec
		same(t, "the Gateway", string(route.ParentRefs[0].Name), clients.TargetRefs[0].Name)
		same(t, "the listener", string(*route.ParentRefs[0].SectionName), "https") // never in the clear
		for _, rule := range route.Rules {
			for _, backend := range rule.BackendRefs {
				s.service[string(backend.Name)] = int32(*backend.Port)
			}
			if name == "app" || len(rule.BackendRefs) > 0 && len(rule.Filters) > 0 {
				continue
			}
			if path := *rule.Matches[0].Path; *path.Type == gatewayv1.PathMatchExact {
				same(t, "the path that clients must not ask", *path.Value, examplePrefix+"verify")
				filter := as[envoyRouteFilter](t, all, "HTTPRouteFilter", string(rule.Filters[0].ExtensionRef.Name))
				same(t, "its answer", filter.DirectResponse.StatusCode, 404)
			} else {
				for _, host := range route.Hostnames {
					s.own = append(s.own, string(host)+*path.Value)
				}
			}
		}
	}
	return s
}
