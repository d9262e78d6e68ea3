// Package chain finds out who makes a request: by the mechanisms of its route, in their order.
//
// The credential of a request is in Authorization or in a cookie. It comes apart, in a header of
// the gateway's own, where Authorization is the application's, and in the header of the key
// token.header. Two credentials that are both for the gateway are ambiguous.
package chain

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"authgate/gateway/config"
	"authgate/gateway/identity/auth"
	"authgate/gateway/login/apitokens"
	"authgate/gateway/login/grants"
	"authgate/policy"
)

// Chains makes the chains of the routes of a configuration.
type Chains struct {
	Options
	order []policy.Mechanism
}

// Options are the parts of chains.
type Options struct {
	Config  *config.Config
	Site    Site
	Bearers *apitokens.Bearers
	Tokens  *apitokens.Set
	Grants  *grants.Grants // nil: the gateway is no authorization server
	// Authenticators verify the credentials of each mechanism.
	Authenticators map[policy.Mechanism]auth.Authenticator
}

// Site has the addresses of the gateway.
type Site interface {
	// Origin returns that of a host.
	Origin(host string) string
	// HostOrHome returns the host if it is one of the gateway's, else that of public_url.
	HostOrHome(host string) string
}

// Chain is the mechanisms of a route. The zero Chain accepts no credentials.
type Chain struct {
	usual         auth.Chain
	apart         auth.Chain // for credentials in a header that is the gateway's alone; nil: usual
	resource      *protected // nil: clients get no tokens for the route
	basic, bearer bool       // the route accepts them
	bearers       *apitokens.Bearers
}

// New returns the chains of a configuration. Authorization comes before cookies, and these before
// certificates, in whatever order a route names its mechanisms. Clients take the first challenge
// that they know, so that of OAuth comes first.
func New(o Options) *Chains {
	c := &Chains{Options: o}
	kinds := policy.Mechanisms()
	slices.SortStableFunc(kinds, func(a, b policy.Traits) int { return cmp.Compare(a.Carrier, b.Carrier) })
	for _, kind := range kinds {
		c.order = append(c.order, kind.Mechanism)
	}
	if o.Grants != nil {
		bearer := slices.Index(c.order, policy.Bearer)
		c.order = slices.Insert(slices.Delete(c.order, bearer, bearer+1), 0, policy.Bearer)
	}
	return c
}

// Of returns the chain of a route. If Authorization is the application's, only a token of the
// gateway's counts there.
func (c *Chains) Of(route *config.Route, rule *policy.Route) Chain {
	made := Chain{
		apart: c.apart(route, rule), bearers: c.Bearers,
		basic: rule.Accepts(policy.Basic), bearer: rule.Accepts(policy.Bearer),
	}
	shared := route.Authorization == config.AuthorizationApplication
	if made.bearer {
		made.usual = append(made.usual, c.passwordTokens(route, rule))
	}
	for _, mechanism := range c.order {
		switch {
		case !rule.Accepts(mechanism), mechanism == policy.Basic && shared:
		case mechanism == policy.Bearer:
			bearers := c.Authenticators[mechanism]
			if shared {
				bearers = c.Bearers.Shared()
			}
			bearers, made.resource = c.protect(route, rule, bearers)
			made.usual = append(made.usual, bearers)
		default:
			made.usual = append(made.usual, c.Authenticators[mechanism])
		}
	}
	return made
}

// apart returns the mechanisms of a route for credentials that come apart, if its
// Authorization is the application's: whatever comes in a header of the gateway's must be
// good.
func (c *Chains) apart(route *config.Route, rule *policy.Route) auth.Chain {
	basic, bearer := rule.Accepts(policy.Basic), rule.Accepts(policy.Bearer)
	if route.Authorization != config.AuthorizationApplication || !basic && !bearer {
		return nil
	}
	var chain auth.Chain
	if bearer {
		chain = append(chain, c.passwordTokens(route, rule))
	}
	for _, mechanism := range c.order {
		if authenticator := c.Authenticators[mechanism]; mechanism == policy.Basic && basic {
			chain = append(chain, authenticator)
		} else if mechanism == policy.Bearer && bearer {
			authenticator, _ = c.protect(route, rule, authenticator)
			chain = append(chain, authenticator)
		}
	}
	return append(chain, auth.Unaccepted{})
}

// protect returns the mechanism for bearer tokens of a route, which also takes those that OAuth
// clients have for it.
func (c *Chains) protect(
	route *config.Route, rule *policy.Route, bearers auth.Authenticator,
) (auth.Authenticator, *protected) {
	var resource *protected
	if c.Grants != nil {
		resource = protect(&c.Options, route, rule, bearers)
		bearers = resource
	}
	if route.BasicChallenge {
		bearers = withoutChallenge{bearers}
	}
	return bearers, resource
}

// passwordTokens returns the mechanism for API tokens as the password of Basic. A
// route that accepts Basic users asks for Basic in any case.
func (c *Chains) passwordTokens(route *config.Route, rule *policy.Route) apitokens.Passwords {
	tokens := apitokens.Passwords{Tokens: c.Tokens}
	if route.BasicChallenge && !rule.Accepts(policy.Basic) {
		tokens.Ask = auth.BasicChallenge(c.Config.Basic.Realm)
	}
	return tokens
}

// withoutChallenge is a mechanism that a 401 does not ask for. Docker and containerd take the Bearer
// challenge if there is one, for the address of a token server.
type withoutChallenge struct{ auth.Authenticator }

// Challenge implements auth.Authenticator.
func (withoutChallenge) Challenge(*auth.Credentials) auth.Challenge { return "" }

// For returns the mechanisms that decide on credentials.
func (c *Chain) For(creds *auth.Credentials) auth.Chain {
	if creds.Apart && c.apart != nil {
		return c.apart
	}
	return c.usual
}

// Challenges returns the challenges of a 401.
func (c *Chain) Challenges(creds *auth.Credentials) []auth.Challenge {
	if c.apart != nil {
		return c.apart.Challenges(creds)
	}
	return c.usual.Challenges(creds)
}

// Metadata returns the address of the document that says where clients get a token for a request,
// "" if they get none.
func (c *Chain) Metadata(creds *auth.Credentials) string {
	if c.resource == nil {
		return ""
	}
	return c.resource.metadata(creds.Host)
}

// CheckResource refuses the access token of an OAuth client that is for a resource of that address,
// unless the route has it at a host.
func (c *Chain) CheckResource(resource, host string) error {
	if c.resource == nil {
		return nil // it accepts no bearer tokens
	}
	return c.resource.CheckAudience([]string{resource}, host)
}

// TriesPassword reports whether credentials are a password for a route that accepts Basic. An API
// token in the place of the password is none.
func (c *Chain) TriesPassword(creds *auth.Credentials) bool {
	return c.basic && creds.Scheme == "basic" && !creds.APITokenInPassword()
}

// ByCookie reports whether a cookie proved an identity, or a certificate, which browsers send by
// themselves, too.
func ByCookie(id *policy.Identity, creds *auth.Credentials) bool {
	switch id.Mechanism.Traits().Carrier {
	case policy.InHeader:
		return false
	case policy.InHeaderOrCookie:
		return !creds.PresentsToken()
	}
	return true
}

// Take takes the credential of a request for a route from a header that is the gateway's alone,
// if there is one: Proxy-Authorization where Authorization is the application's, or token.header
// where the route accepts tokens.
func (c *Chain) Take(creds *auth.Credentials, h http.Header) error {
	if !c.bearer {
		creds.Token = "" // like any other credential that the route does not accept
	}
	if c.apart != nil {
		switch values := h["Proxy-Authorization"]; {
		case len(values) > 1:
			return fmt.Errorf("%w: several Proxy-Authorization headers", auth.ErrAmbiguous)
		case len(values) == 1 && creds.Token != "":
			return fmt.Errorf("%w: Proxy-Authorization beside token.header", auth.ErrAmbiguous)
		case len(values) == 1:
			creds.UseProxyAuthorization(values[0])
			return nil
		}
	}
	return takeToken(creds, h, c.bearers, c.apart == nil && c.basic)
}

// TakeToken takes the credential of a request for an own endpoint from token.header, if it is
// there.
func (c *Chains) TakeToken(creds *auth.Credentials, h http.Header) error {
	return takeToken(creds, h, c.Bearers, true)
}

// takeToken takes the token in token.header, if there is one. basic tells that Basic in
// Authorization is for the gateway, and bearers knows whether a token there is.
func takeToken(creds *auth.Credentials, h http.Header, bearers *apitokens.Bearers, basic bool) error {
	if creds.Token == "" {
		return nil
	}
	if values := h["Authorization"]; len(values) > 0 {
		beside := auth.Authorization(values[0])
		if basic && beside.Scheme == "basic" || beside.APITokenInPassword() || beside.BearsAPIToken() ||
			bearers.ContainsOwn(values[0]) {
			return fmt.Errorf("%w: Authorization beside token.header", auth.ErrAmbiguous)
		}
	}
	creds.UseToken()
	return nil
}
