package gateway

import (
	"context"
	"errors"

	"authgate/gateway/endpoint"
	"authgate/gateway/identity/auth"
	"authgate/gateway/proxy/streams"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// confirmed is the last confirmation of a request's login, first by its policy and then by Check.
type confirmed struct {
	state *state
	route *route
	id    *policy.Identity
}

// Check implements streams.Login: it finds out whether the request would be let in now.
func (ex *exchange) Check(ctx context.Context) error {
	if ex.Identity == nil && (ex.sent.Preflight || !ex.route.rule.AdmitsNobody()) {
		return nil // no identity was decided on
	}
	c := &ex.confirmed
	if st := ex.gateway.state.Load(); c.state != st {
		route := st.routing.lookup(&ex.Canonical)
		if route == nil || route.forward == nil {
			const reason = "no route matches any more"
			return &streams.Ended{Err: endpoint.NothingHere(reason), Reason: reason}
		}
		if route.config.MCP && !ex.MCP {
			const reason = "the route has mcp: true now, and this request came without it"
			return &streams.Ended{Err: web.Forbidden(), Reason: reason}
		}
		*c = confirmed{st, route, nil}
	}
	if c.route.rule.Public() {
		return nil
	}
	if ex.Identity == nil {
		if c.route.rule.Decide(nil, &ex.Canonical).Outcome == policy.Allow {
			return nil
		}
		return notAlive(credentialsNeeded("the route needs credentials now"), c.route, &ex.Credentials)
	}
	id, err := c.route.chain.For(&ex.Credentials).Alive(ctx, &ex.Credentials)
	if err != nil && !errors.Is(err, auth.ErrNoCredentials) {
		return notAlive(err, c.route, &ex.Credentials)
	}
	if id != nil && id == c.id {
		return nil // as decided before
	}
	if id == nil { // a user's request does not go on without an identity
		const reason = "the route does not accept the credentials any more"
		return notAlive(credentialsNeeded(reason), c.route, &ex.Credentials)
	}
	switch decision := c.route.rule.Decide(id, &ex.Canonical); decision.Outcome {
	case policy.Allow:
		c.id = id
		return nil
	case policy.StepUp:
		refusal := web.StepUp(c.state.config.Basic.Realm, id, decision.Demand, decision.Reason)
		return &streams.Ended{Err: refusal, Reason: decision.Reason}
	default:
		return &streams.Ended{Err: web.Forbidden(), Reason: decision.Reason}
	}
}

// LoginID implements streams.Login.
func (ex *exchange) LoginID() string {
	if ex.Identity == nil {
		return ""
	}
	return ex.Identity.Login
}

// Ground implements streams.Login.
func (ex *exchange) Ground() streams.Ground {
	if ex.confirmed.id == nil {
		return streams.Ground{}
	}
	return streams.Ground{Identity: ex.confirmed.id, Route: ex.confirmed.route}
}

// Shares implements streams.Login: Alive says the same about equal credentials at a route.
func (ex *exchange) Shares(other streams.Login) bool {
	o, ok := other.(*exchange)
	return ok && ex.confirmed == o.confirmed && ex.Credentials == o.Credentials
}

// credentialsNeeded returns the rejection of a request that needs credentials now.
func credentialsNeeded(reason string) error {
	return &auth.Rejection{Detail: auth.DetailNotSignedIn, Reason: reason}
}

// notAlive returns the error of Check for one of Alive.
func notAlive(err error, r *route, creds *auth.Credentials) error {
	if rejection, ok := errors.AsType[*auth.Rejection](err); ok {
		return &streams.Ended{Err: web.Challenge(err, r.chain.Challenges(creds)...), Reason: rejection.Reason}
	}
	return err
}
