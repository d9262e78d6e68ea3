package config

import (
	"fmt"
	"slices"
)

// exchange checks what a client may exchange. It needs the routes.
func (k *checker) exchange(path string, client *OAuthClient) {
	r, at := k.report, path+".exchange"
	if r.Broken(at) || r.Broken(path+".grants") {
		return
	}
	has := slices.Contains(client.Grants, GrantTokenExchange)
	if !has {
		if r.Given(at) {
			r.Fault(at, "has no effect without %s in grants; add the grant, or remove this key", GrantTokenExchange)
		}
		return
	}
	for key, values := range map[string][]string{".from": client.Exchange.From, ".to": client.Exchange.To} {
		if len(values) == 0 && !r.Broken(at+key) {
			r.Fault(at+key, "is needed for the grant %s: resources of routes", GrantTokenExchange)
		}
		for i, value := range values {
			if k.cfg.table != nil && k.cfg.Resources().InTokens(value) == "" {
				r.Fault(fmt.Sprintf("%s%s[%d]", at, key, i), "%q is not the resource of a route that accepts bearer; "+
					"expected its address, like https://gate.example.org/api, or the name of a shared resource", value)
			}
		}
	}
}
