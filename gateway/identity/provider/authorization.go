package provider

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"authgate/policy"
)

// ownParameters of an authorization request cannot be set by the configuration.
var ownParameters = []string{
	"response_type", "client_id", "redirect_uri", "scope", "state", "nonce", "code_challenge", "code_challenge_method",
}

// AuthorizationURL returns the URL to which the browser goes to log in: the
// authorization endpoint with a request for a code (RFC 6749, section 4.1.1). The
// state, the nonce (with OpenID Connect) and an S256 code challenge (RFC 7636) bind
// the request to the attempt. A request for offline_access also asks for consent,
// without which providers ignore it (OpenID Connect Core 1.0, section 11).
func (p *Provider) AuthorizationURL(ctx context.Context, a Attempt) (string, error) {
	if err := p.checkAttempt(a); err != nil {
		return "", p.fault("authorization", err)
	}
	if a.State == "" {
		return "", p.fault("authorization", errors.New("the attempt has no state"))
	}
	m, err := p.metadata(ctx)
	if err != nil {
		return "", err
	}
	var further []oauth2.AuthCodeOption
	for name, value := range p.options.AuthorizationParams {
		if !slices.Contains(ownParameters, name) {
			further = append(further, oauth2.SetAuthURLParam(name, value))
		}
	}
	if a.Hint != "" && p.openID() {
		further = append(further, oauth2.SetAuthURLParam("login_hint", a.Hint))
	}
	if prompt := p.prompt(a); prompt != "" {
		further = append(further, oauth2.SetAuthURLParam("prompt", prompt))
	}
	further = append(further, p.stepUp(a.Demand.And(a.Wish))...)
	if p.openID() {
		further = append(further, oidc.Nonce(a.Nonce))
	}
	further = append(further, oauth2.S256ChallengeOption(a.Verifier))
	config := oauth2.Config{
		ClientID: p.options.Client.ID, RedirectURL: p.options.RedirectURL, Scopes: p.options.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: m.Authorization},
	}
	return config.AuthCodeURL(a.State, further...), nil
}

// stepUp returns the parameters that state the demand (OpenID Connect Core 1.0, section 3.1.2.1).
func (p *Provider) stepUp(d policy.Demand) (parameters []oauth2.AuthCodeOption) {
	if !p.openID() {
		return nil
	}
	if d.MaxAge > 0 {
		parameters = append(parameters, oauth2.SetAuthURLParam("max_age", strconv.FormatInt(d.Seconds(), 10)))
	}
	if d.Factors == 2 && p.options.StepUpACR != "" {
		parameters = append(parameters, oauth2.SetAuthURLParam("acr_values", p.options.StepUpACR))
	}
	return parameters
}

// prompt returns the parameter of that name, unless the configuration sets it. A step-up
// needs one in any case: a sign-in that the user's session answers proves nothing new.
func (p *Provider) prompt(a Attempt) string {
	var prompts []string
	demands := a.Demand != policy.Demand{}
	if _, ok := p.options.AuthorizationParams["prompt"]; ok && !(demands && p.openID()) {
		return ""
	}
	if (a.Another || demands) && p.openID() {
		prompts = append(prompts, "login")
	}
	if slices.Contains(p.options.Scopes, oidc.ScopeOfflineAccess) {
		prompts = append(prompts, "consent")
	}
	return strings.Join(prompts, " ")
}

// AuthorizationOrigin returns the origin to which browsers go to log in. Before
// discovery it is that of the issuer. It is empty if there is none.
func (p *Provider) AuthorizationOrigin() string {
	address := p.options.Issuer
	if p.given != nil {
		address = p.given.Authorization
	} else if known := p.discovered.state(); known.value != nil {
		address = known.value.Authorization
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// checkAttempt refuses an attempt without the secrets that bind it.
func (p *Provider) checkAttempt(a Attempt) error {
	if a.Verifier == "" || p.openID() && a.Nonce == "" {
		return errors.New("the attempt has no code verifier or no nonce")
	}
	return nil
}

// CheckIssuer checks the parameter iss of an authorization response, which shows
// that the response comes from this provider (RFC 9207, section 2.4). If present,
// it must be the issuer. If the provider announces it, it must be present. The
// error is ErrMixUp, or that of discovery.
func (p *Provider) CheckIssuer(ctx context.Context, iss string, present bool) error {
	if present {
		if iss == "" || iss != p.options.Issuer {
			return fail(p.options.Name, "callback", ErrMixUp,
				fmt.Errorf("iss is %q, and the configured issuer is %q", iss, p.options.Issuer))
		}
		return nil
	}
	m, err := p.metadata(ctx)
	if err != nil {
		return err
	}
	if m.IssParameter {
		return fail(p.options.Name, "callback", ErrMixUp,
			errors.New("iss is missing, and the provider announces that it always sends it"))
	}
	return nil
}
