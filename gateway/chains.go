package gateway

import (
	"fmt"

	"authgate/gateway/apitokens"
	"authgate/gateway/auth"
	"authgate/gateway/config"
	"authgate/gateway/oauth"
	"authgate/policy"
)

// chains makes the mechanisms of routes.
type chains struct {
	st    *state
	known map[policy.Mechanism]auth.Authenticator
	order []policy.Mechanism
}

// newChains returns the chains of a state. Authorization comes before cookies, and these before
// certificates, in whatever order a route names its mechanisms. Clients take the first challenge
// that they know, so that of OAuth comes first.
func newChains(st *state) *chains {
	m, f := st.mechanisms, st.federation
	c := &chains{
		st: st, order: []policy.Mechanism{policy.Basic, policy.Bearer, policy.Session, policy.OIDC, policy.Certificate},
		known: map[policy.Mechanism]auth.Authenticator{
			policy.Basic: m.Basic, policy.Bearer: f.Bearers, policy.Session: m.Sessions, policy.OIDC: f.Delegated,
			policy.Certificate: m.Certificates,
		},
	}
	if st.oauth != nil {
		c.order[0], c.order[1] = c.order[1], c.order[0]
	}
	return c
}

// of returns the mechanisms of a route, and what says where clients get a token for it. If
// Authorization is the application's, only a token of the gateway's counts there.
func (c *chains) of(route *config.Route, rule *policy.Route) (chain auth.Chain, resource *oauth.Protected) {
	shared := route.Authorization == config.AuthorizationApplication
	if rule.Accepts(policy.Bearer) {
		chain = append(chain, c.passwordTokens(route, rule))
	}
	for _, mechanism := range c.order {
		switch {
		case !rule.Accepts(mechanism), mechanism == policy.Basic && shared:
		case mechanism == policy.Bearer:
			bearers := c.known[mechanism]
			if shared {
				bearers = c.st.federation.Bearers.Shared()
			}
			bearers, resource = c.protect(route, rule, bearers)
			chain = append(chain, bearers)
		default:
			chain = append(chain, c.known[mechanism])
		}
	}
	return chain, resource
}

// apart returns the mechanisms of a route for credentials that come apart, if its
// Authorization is the application's: whatever comes in a header of the gateway's must be
// good.
func (c *chains) apart(route *config.Route, rule *policy.Route) auth.Chain {
	basic, bearer := rule.Accepts(policy.Basic), rule.Accepts(policy.Bearer)
	if route.Authorization != config.AuthorizationApplication || !basic && !bearer {
		return nil
	}
	var chain auth.Chain
	if bearer {
		chain = append(chain, c.passwordTokens(route, rule))
	}
	for _, mechanism := range c.order {
		if authenticator := c.known[mechanism]; mechanism == policy.Basic && basic {
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
func (c *chains) protect(
	route *config.Route, rule *policy.Route, bearers auth.Authenticator,
) (auth.Authenticator, *oauth.Protected) {
	var resource *oauth.Protected
	if st := c.st; st.oauth != nil {
		resource = oauth.Protect(st.oauth.Grants, st.site, st.config, route, rule, bearers)
		bearers = resource
	}
	if route.BasicChallenge {
		bearers = unasked{bearers}
	}
	return bearers, resource
}

// passwordTokens returns the mechanism for API tokens as the password of Basic. A
// route that accepts Basic users asks for Basic in any case.
func (c *chains) passwordTokens(route *config.Route, rule *policy.Route) apitokens.Passwords {
	tokens := apitokens.Passwords{Tokens: c.st.mechanisms.API}
	if route.BasicChallenge && !rule.Accepts(policy.Basic) {
		tokens.Ask = auth.BasicChallenge(c.st.config.Basic.Realm)
	}
	return tokens
}

// unasked is a mechanism that a 401 does not ask for. Docker and containerd take the Bearer
// challenge if there is one, for the address of a token server.
type unasked struct{ auth.Authenticator }

// Challenge implements auth.Authenticator.
func (unasked) Challenge(*auth.Credentials) auth.Challenge { return "" }

// asked returns the mechanisms that are asked for credentials.
func (r *route) asked(creds *auth.Credentials) auth.Chain {
	if creds.Apart && r.apart != nil {
		return r.apart
	}
	return r.chain
}

// challenges returns what a 401 asks for.
func (r *route) challenges(creds *auth.Credentials) []auth.Challenge {
	if r.apart != nil {
		return r.apart.Challenges(creds)
	}
	return r.chain.Challenges(creds)
}

// takeApart takes the credential of a request for a route from a header that is the
// gateway's alone, if there is one: Proxy-Authorization where Authorization is the
// application's, or token.header where the route accepts tokens.
func (ex *exchange) takeApart() error {
	creds, route := &ex.Credentials, ex.route
	if !route.rule.Accepts(policy.Bearer) {
		creds.Token = "" // like any other credential that the route does not accept
	}
	if route.apart != nil {
		switch values := ex.Request.Header["Proxy-Authorization"]; {
		case len(values) > 1:
			return fmt.Errorf("%w: several Proxy-Authorization headers", auth.ErrAmbiguous)
		case len(values) == 1 && creds.Token != "":
			return fmt.Errorf("%w: Proxy-Authorization beside token.header", auth.ErrAmbiguous)
		case len(values) == 1:
			creds.UseProxyAuthorization(values[0])
			return nil
		}
	}
	return ex.takeToken(route.apart == nil && route.rule.Accepts(policy.Basic))
}

// takeToken takes the token in token.header, if there is one. basic tells that Basic in
// Authorization is for the gateway. Two credentials for the gateway are ambiguous.
func (ex *exchange) takeToken(basic bool) error {
	creds := &ex.Credentials
	if creds.Token == "" {
		return nil
	}
	if values := ex.Request.Header["Authorization"]; len(values) > 0 {
		beside := auth.Authorization(values[0])
		if basic && beside.Scheme == "basic" || apitokens.InPassword(&beside) ||
			beside.Scheme == "bearer" && apitokens.Is(beside.Value) ||
			ex.state.federation.Bearers.ContainsOwn(values[0]) {
			return fmt.Errorf("%w: Authorization beside token.header", auth.ErrAmbiguous)
		}
	}
	creds.UseToken()
	return nil
}
