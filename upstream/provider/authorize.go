package provider

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// authorization is an authorization request (RFC 6749, section 4.1.1; OpenID
// Connect Core 1.0, section 3.1.2.1).
type authorization struct {
	client      *Client
	redirectURI string
	state       string
	scopes      []string
	nonce       string
	challenge   string // for PKCE with S256
	loginHint   string

	silent bool           // prompt=none: do not show a page
	fresh  bool           // prompt=login: ask for the password again
	maxAge *time.Duration // since the user last entered the password; nil: any
}

// code is an authorization code, which works once (RFC 6749, section 4.1.2).
type code struct {
	grant       *grant
	redirectURI string
	challenge   string
	nonce       string
	used        bool
}

// authorize is the authorization endpoint. It answers at once for a signed-in
// user, and sends others to the sign-in page first.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		p.pages.failure(w, http.StatusBadRequest, "The request cannot be read: "+err.Error())
		return
	}
	a := p.requested(w, r, r.Form)
	if a == nil {
		return
	}
	s := p.current(r)
	switch {
	case s != nil && a.satisfied(s, p.options.Now()):
		p.answer(w, r, a, s)
	case a.silent:
		p.sendBack(w, r, a, &failure{"login_required", "no user is signed in, or not recently enough"})
	default:
		http.Redirect(w, r, pathSignIn+"?"+r.Form.Encode(), http.StatusSeeOther)
	}
}

// requested reads an authorization request. If the request has a mistake,
// requested answers it and returns nil.
func (p *Provider) requested(w http.ResponseWriter, r *http.Request, values url.Values) *authorization {
	client, uri := p.clients[values.Get("client_id")], values.Get("redirect_uri")
	switch {
	case len(values["client_id"]) != 1 || client == nil:
		p.pages.failure(w, http.StatusBadRequest, "The client_id is missing or not registered here.")
		return nil
	case len(values["redirect_uri"]) != 1 || !slices.Contains(client.RedirectURIs, uri):
		// No redirect: an attacker could have invented the address.
		p.pages.failure(w, http.StatusBadRequest, "The redirect_uri is missing, or the client has not registered it.")
		return nil
	}
	a := &authorization{client: client, redirectURI: uri, state: values.Get("state")}
	if f := a.read(values); f != nil {
		p.sendBack(w, r, a, f)
		return nil
	}
	return a
}

// read reads all parameters except client_id, redirect_uri and state. It ignores
// unknown parameters and scopes, as the standards require.
func (a *authorization) read(values url.Values) *failure {
	for name, all := range values {
		if len(all) > 1 {
			return &failure{"invalid_request", "the parameter " + name + " occurs more than once"}
		}
	}
	switch {
	case values.Get("response_type") == "":
		return &failure{"invalid_request", "response_type is missing; expected code"}
	case values.Get("response_type") != "code":
		return &failure{"unsupported_response_type", "expected code"}
	case values.Get("response_mode") != "" && values.Get("response_mode") != "query":
		return &failure{"invalid_request", "the response_mode is unknown; expected query"}
	case values.Has("request"):
		return &failure{"request_not_supported", "parameters go into the query"}
	case values.Has("request_uri"):
		return &failure{"request_uri_not_supported", "parameters go into the query"}
	}
	for scope := range strings.FieldsSeq(values.Get("scope")) {
		switch scope {
		case "openid", "profile", "email", "offline_access":
			a.scopes = append(a.scopes, scope)
		}
	}
	if !slices.Contains(a.scopes, "openid") {
		return &failure{"invalid_scope", "the scope must contain openid"}
	}
	a.nonce, a.loginHint = values.Get("nonce"), values.Get("login_hint")
	if f := a.readChallenge(values); f != nil {
		return f
	}
	return a.readPrompt(values)
}

// readChallenge reads the PKCE challenge (RFC 7636, section 4.3), which every
// client must send.
func (a *authorization) readChallenge(values url.Values) *failure {
	if values.Get("code_challenge_method") != "S256" {
		return &failure{"invalid_request", "PKCE is required, with the code_challenge_method S256"}
	}
	a.challenge = values.Get("code_challenge")
	sum, err := base64.RawURLEncoding.DecodeString(a.challenge)
	if err != nil || len(sum) != 32 {
		return &failure{"invalid_request", "the code_challenge is not a SHA-256 hash in base64url"}
	}
	return nil
}

// readPrompt reads prompt and max_age. consent has no effect, and select_account
// is like login.
func (a *authorization) readPrompt(values url.Values) *failure {
	asked := strings.Fields(values.Get("prompt"))
	for _, prompt := range asked {
		switch prompt {
		case "none":
			a.silent = true
		case "login", "select_account":
			a.fresh = true
		case "consent":
		default:
			return &failure{"invalid_request", "the prompt is unknown; expected none, login, select_account or consent"}
		}
	}
	if a.silent && len(asked) > 1 {
		return &failure{"invalid_request", "the prompt none excludes all others"}
	}
	if text := values.Get("max_age"); text != "" {
		seconds, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return &failure{"invalid_request", "the max_age is not a number of seconds"}
		}
		age := time.Duration(seconds) * time.Second
		a.maxAge = &age
	}
	return nil
}

// satisfied reports whether a session is recent enough for the request.
func (a *authorization) satisfied(s *session, now time.Time) bool {
	return !a.fresh && (a.maxAge == nil || now.Sub(s.since) <= *a.maxAge)
}

// answer sends the browser back to the client with a code.
func (p *Provider) answer(w http.ResponseWriter, r *http.Request, a *authorization, s *session) {
	g := &grant{id: secret(), session: s, client: a.client, scopes: a.scopes}
	value := secret()
	p.mu.Lock()
	p.grants.put(g.id, g, s.expires)
	p.codes.put(value, &code{
		grant: g, redirectURI: a.redirectURI, challenge: a.challenge, nonce: a.nonce,
	}, p.options.Now().Add(p.options.CodeLifetime))
	p.mu.Unlock()
	a.redirect(w, r, p.options.Issuer, url.Values{"code": {value}})
}

// sendBack sends the browser back to the client with an error (RFC 6749,
// section 4.1.2.1).
func (p *Provider) sendBack(w http.ResponseWriter, r *http.Request, a *authorization, f *failure) {
	a.redirect(w, r, p.options.Issuer, url.Values{"error": {f.Code}, "error_description": {f.Description}})
}

// redirect adds state and issuer (RFC 9207) to an answer. Its status is 303, so
// that the browser does not send a form again.
func (a *authorization) redirect(w http.ResponseWriter, r *http.Request, issuer string, answer url.Values) {
	answer.Set("iss", issuer)
	if a.state != "" {
		answer.Set("state", a.state)
	}
	http.Redirect(w, r, withQuery(a.redirectURI, answer), http.StatusSeeOther)
}

// withQuery adds parameters to a URI and keeps those that it has.
func withQuery(uri string, more url.Values) string {
	switch {
	case len(more) == 0:
		return uri
	case strings.Contains(uri, "?"):
		return uri + "&" + more.Encode()
	}
	return uri + "?" + more.Encode()
}
