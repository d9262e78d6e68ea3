package config

import (
	"fmt"

	"authgate/policy"
)

// checkOAuth checks the section oauth, and compiles the policies of clients.
func (c *Config) checkOAuth(r *report, policies *policy.Set) {
	c.clientPolicies = map[string]*policy.Route{}
	for i := range c.OAuth.Clients {
		client, path := &c.OAuth.Clients[i], fmt.Sprintf("oauth.clients[%d]", i)
		if client.ID == "" {
			r.Fault(path+".id", "the client identifier is needed, with which the application is configured")
		}
		c.compileClientPolicy(r, path+".policy", client, policies)
	}
}

// compileClientPolicy compiles the policy of a client.
func (c *Config) compileClientPolicy(r *report, path string, client *OAuthClient, policies *policy.Set) {
	if client.Policy == "" {
		return
	}
	compiled, err := policies.Policy(path, []policy.Ref{{Name: client.Policy}})
	r.policyErrors(err)
	if compiled != nil {
		c.clientPolicies[client.ID] = &policy.Route{
			Name: path, Mechanisms: []policy.Mechanism{policy.Session, policy.OIDC}, Policy: compiled,
		}
	}
}
