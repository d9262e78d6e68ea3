package grants

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login"
	"authgate/gateway/store/record"
	"authgate/policy"
)

const (
	// tokenType is the type in the header of access tokens (RFC 9068, section 2.1).
	tokenType = "at+jwt"
	// maxTokenBytes is the maximum length of a token.
	maxTokenBytes = 8 << 10
	// clientMark begins the subject of a client that acts for itself.
	clientMark = policy.ClientProvider + ":"
	// federationClaim names the entry of a client's federation that a token ends with.
	federationClaim = "federation"
	// vouchedClaim names the record of a token that a client got by the word of a provider.
	vouchedClaim = "vouched"
)

// subject returns the sub of a token of id.
func subject(id *policy.Identity) string {
	if id.Provider == policy.LocalProvider {
		return id.Username
	}
	return id.Subject
}

// Lend returns the identity of a token with scopes. It has no role that id does not have.
func (g *Grants) Lend(scopes []string, id *policy.Identity) *policy.Identity {
	scoped := *id
	scoped.Scopes = scopes
	return scoped.Reduced(g.options.Lend(scopes, &scoped).Roles)
}

// issue returns a new access token of a grant, with those terms.
func (g *Grants) issue(by *liveLender, of *grant, terms *Terms, name string) (*Issued, error) {
	now := g.options.Now().Truncate(time.Second)
	expires := now.Add(terms.Access)
	if of.Expires.Before(expires) {
		expires = of.Expires.Truncate(time.Second)
	}
	id := *by.identity
	id.Expires = expires
	lent := g.Lend(terms.Scopes, &id)
	if expires = lent.Bound(expires).Truncate(time.Second); expires.Before(id.Expires) {
		bound := *lent
		bound.Expires = expires
		lent = &bound
	}
	claims := g.claims(lent, terms, now)
	claims["sid"], claims["grant"] = by.login.ID, name
	if lent.AMR != nil {
		claims["amr"] = lent.AMR
	}
	if at := lent.AuthTime; !at.IsZero() {
		claims["auth_time"] = at.Unix()
	}
	token, err := g.options.Keys.SignType(tokenType, claims)
	if err != nil {
		return nil, fmt.Errorf("signing an access token: %w", err)
	}
	return &Issued{Access: token, ExpiresIn: expires.Sub(now), Terms: *terms, Login: by.login, Identity: lent}, nil
}

// claims returns the claims of an access token (RFC 9068, section 2.2).
func (g *Grants) claims(id *policy.Identity, terms *Terms, now time.Time) map[string]any {
	claims := map[string]any{
		"iss": g.options.Issuer, "sub": subject(id), "aud": g.audience(terms.Resource),
		"iat": now.Unix(), "nbf": now.Unix(), "exp": id.Expires.Unix(),
		"jti": rand.Text(), "client_id": terms.Client, "roles": append([]string{}, id.Roles...),
	}
	if terms.Federation != "" {
		claims[federationClaim] = terms.Federation
	}
	if len(terms.Scopes) > 0 {
		claims["scope"] = strings.Join(terms.Scopes, " ")
	}
	if act := id.Act(); act != nil {
		claims["act"] = act
	}
	return claims
}

// audience returns a string if there is one audience, and an array otherwise (RFC 7519,
// section 4.1.3).
func (g *Grants) audience(resource string) any {
	switch {
	case resource != "":
		return resource
	case len(g.options.Audience) == 1:
		return g.options.Audience[0]
	}
	return g.options.Audience
}

// Credentials returns an access token of a client that acts for itself (RFC 6749, section
// 4.4). The error is ErrInvalid if it may not.
func (g *Grants) Credentials(client string, t Terms) (*Issued, error) {
	now := g.options.Now().Truncate(time.Second)
	expires := now.Add(t.Access)
	id, err := g.Client(client, expires)
	if err != nil {
		return nil, err
	}
	id = g.Lend(t.Scopes, id)
	t.Client, t.OpenID, t.Nonce, t.Refresh = client, false, "", 0
	token, err := g.options.Keys.SignType(tokenType, g.claims(id, &t, now))
	if err != nil {
		return nil, fmt.Errorf("signing an access token: %w", err)
	}
	return &Issued{Access: token, ExpiresIn: expires.Sub(now), Terms: t, Identity: id}, nil
}

// Client returns the identity of a client that acts for itself, with all of its roles. The error is
// ErrInvalid if it may not.
func (g *Grants) Client(client string, expires time.Time) (*policy.Identity, error) {
	roles, ok := g.options.Client(client)
	if !ok {
		return nil, invalid("the client may not act for itself")
	}
	return &policy.Identity{
		Username: clientMark + client, Subject: clientMark + client, Roles: roles,
		Mechanism: policy.Bearer, Provider: policy.ClientProvider, Expires: expires,
	}, nil
}

// accessToken is the content of a token whose signature and form are valid.
type accessToken struct {
	subject, id, client, login, grant string
	federation, vouched               string
	scopes, audience                  []string
	actors                            []string    // the outermost first; empty: no client acts for the user
	exchanged                         []exchanged // the tokens that led to it, the last one first
	issued, expires                   time.Time

	revokedKey string
}

// verified is a token whose signature need not be verified again. Its time and its basis are
// checked on every request.
type verified struct {
	*accessToken
	basis    record.Basis // that it is not revoked; the grant, the consents, the login and its user
	login    *login.Login // nil: a client acts for itself
	identity *policy.Identity
	terms    Terms
}

// isAccess reports whether a token says that it is an access token of a grant.
func (g *Grants) isAccess(token string) bool { return strings.HasPrefix(token, g.header) }

// verify checks signature, form and time of an access token, and then all that it depends on.
// The user's profile is renewed; a request waits for that only if patient.
func (g *Grants) verify(ctx context.Context, token string, patient bool) (*verified, error) {
	ready, err := g.findVerified(ctx, token)
	if err == nil && ready.login != nil && g.options.Holders.Renew(ctx, ready.login, patient) {
		return g.findVerified(ctx, token)
	}
	return ready, err
}

// findVerified is verify without the profile.
func (g *Grants) findVerified(ctx context.Context, token string) (*verified, error) {
	ready := g.verified.Get(token)
	if ready == nil {
		access, err := g.parse(token)
		if err != nil {
			return nil, badToken(err.Error())
		}
		ready = &verified{accessToken: access}
	}
	now := g.options.Now()
	if !now.Before(ready.expires) {
		return nil, auth.Past(badToken("expired"))
	}
	holds, err := ready.basis.Holds(ctx, g.options.Store)
	if err != nil || holds && ready.identity.Holds(now) {
		return ready, err
	}
	current, err := g.resolve(ctx, ready.accessToken)
	if errors.Is(err, ErrInvalid) {
		err = auth.Past(badToken(err.Error()))
	}
	if err != nil {
		return nil, err
	}
	g.verified.Keep(token, current)
	return current, nil
}

// resolve finds the records that a token depends on, and who it is. It reads in parallel, because
// the store must probably ask a disk or a server.
func (g *Grants) resolve(ctx context.Context, access *accessToken) (*verified, error) {
	if err := g.federated(access.client, access.federation); err != nil {
		return nil, err
	}
	if err := g.checkExchanges(access); err != nil {
		return nil, err
	}
	var other errgroup.Group
	revocations := access.revocations()
	for _, key := range revocations {
		other.Go(func() error {
			revocation, err := record.Find(ctx, g.options.Store, key)
			if err == nil && revocation != nil {
				err = invalid("revoked")
			}
			return err
		})
	}
	var current *verified
	var err error
	switch {
	case access.grant != "":
		current, err = g.resolveGrant(ctx, access)
	case access.vouched != "":
		current, err = g.resolveVouched(ctx, access)
	default:
		current, err = g.resolveClient(access)
	}
	if revoked := other.Wait(); revoked != nil {
		return nil, revoked
	}
	if err != nil {
		return nil, err
	}
	for _, key := range revocations {
		current.basis = slices.Insert(current.basis, 0, record.Stored{Key: key})
	}
	return current, nil
}

// resolveClient returns who a token without a login is.
func (g *Grants) resolveClient(access *accessToken) (*verified, error) {
	id, err := g.Client(access.lentTo(), access.expires)
	if err != nil {
		return nil, err
	}
	id = g.Lend(access.scopes, actedFor(id, access.actors))
	if access.subject != id.Subject {
		return nil, invalid("its sub is not that of its client")
	}
	terms := Terms{Client: access.client, Resource: g.resourceOf(access.audience), Scopes: access.scopes}
	return &verified{accessToken: access, identity: id, terms: terms}, nil
}

// federated refuses tokens and codes of a client that came by an entry of its federation which has changed since.
func (g *Grants) federated(client, entry string) error {
	if entry != "" && !g.options.Federated(client, entry) {
		return invalid("the federation of its client has changed")
	}
	return nil
}

// resourceOf returns the resource of an audience, empty if it is that of the gateway's own
// tokens.
func (g *Grants) resourceOf(audience []string) string {
	if slices.Equal(audience, g.options.Audience) {
		return ""
	}
	return audience[0]
}

// resolveGrant returns who a token of a grant is.
func (g *Grants) resolveGrant(ctx context.Context, access *accessToken) (*verified, error) {
	known, raw, err := g.load(ctx, access.grant)
	if err != nil {
		return nil, err
	}
	by, err := g.lenderOf(ctx, access.grant, known, access.expires)
	if err != nil {
		return nil, err
	}
	id := g.Lend(access.scopes, actedFor(by.identity, access.actors))
	if known.Client != access.lentTo() || known.Login != access.login || subject(id) != access.subject {
		return nil, invalid("it is not of its grant")
	}
	terms := known.Terms
	terms.Scopes = access.scopes
	if len(access.exchanged) > 0 {
		terms.Client, terms.Resource, terms.OpenID = access.client, access.audience[0], false
	}
	basis := append(record.Basis{{Key: grantPrefix + access.grant, Raw: raw}}, by.basis...)
	return &verified{accessToken: access, basis: basis, login: by.login, identity: id, terms: terms}, nil
}

// parse verifies the signature first, and then the claims.
func (g *Grants) parse(token string) (*accessToken, error) {
	if !g.isAccess(token) || len(token) > maxTokenBytes {
		return nil, errors.New("not made for a client, or too long")
	}
	claims, expires, err := g.reader.Read(token)
	if err != nil {
		return nil, err
	}
	access := &accessToken{expires: expires}
	for name, at := range map[string]*string{"sub": &access.subject, "jti": &access.id, "client_id": &access.client} {
		if *at, _ = claims[name].(string); *at == "" {
			return nil, fmt.Errorf("%s is missing or not a string", name)
		}
	}
	access.login, _ = claims["sid"].(string)
	access.grant, _ = claims["grant"].(string)
	access.federation, _ = claims[federationClaim].(string)
	access.vouched, _ = claims[vouchedClaim].(string)
	scope, _ := claims["scope"].(string)
	access.scopes = strings.Fields(scope)
	switch aud := claims["aud"].(type) {
	case string:
		access.audience = []string{aud}
	case []any:
		for _, one := range aud {
			name, _ := one.(string)
			access.audience = append(access.audience, name)
		}
	}
	if len(access.audience) == 0 || slices.Contains(access.audience, "") {
		return nil, errors.New("aud is missing or not text")
	}
	if at, ok := claims["iat"].(json.Number); ok {
		seconds, _ := at.Int64() // the reader has checked it
		access.issued = time.Unix(seconds, 0)
	}
	if access.actors, err = actorsOf(claims["act"]); err != nil {
		return nil, err
	}
	if access.exchanged, err = exchangedOf(claims[exchangedClaim]); err != nil {
		return nil, err
	}
	access.revokedKey = revokedPrefix + access.id
	return access, nil
}

// maxActors is how many clients may act one for the other.
const maxActors = 4

// actorsOf returns the actors of the claim act, the outermost first.
func actorsOf(claim any) (actors []string, err error) {
	for claim != nil {
		act, _ := claim.(map[string]any)
		subject, _ := act["sub"].(string)
		if subject == "" || len(actors) == maxActors {
			return nil, errors.New("act is not that of a client")
		}
		actors, claim = append(actors, subject), act["act"]
	}
	return actors, nil
}

// actedFor returns the identity of a token by which actors act for id. It is id itself without actors.
func actedFor(id *policy.Identity, actors []string) *policy.Identity {
	if len(actors) == 0 {
		return id
	}
	acted := *id
	acted.Actor, acted.EarlierActors = actors[0], actors[1:]
	return &acted
}

func badToken(reason string) error {
	return &auth.Rejection{Detail: auth.DetailBadToken, Reason: "access token of a client: " + reason}
}
