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

// authorization is a request that a client has sent a browser with (RFC 6749,
// section 4.1.1; OpenID Connect Core 1.0, section 3.1.2.1).
type authorization struct {
	client      *Client
	redirectURI string
	state       string
	scopes      []string
	nonce       string
	challenge   string // of PKCE, by S256
	loginHint   string

	silent bool           // prompt=none: no page may be shown
	fresh  bool           // prompt=login: being signed in is not enough
	maxAge *time.Duration // since the password was last given; nil: any
}

// code can be exchanged for tokens, once (RFC 6749, section 4.1.2).
type code struct {
	grant       *grant
	redirectURI string
	challenge   string
	nonce       string
	used        bool
}

// authorize is the authorization endpoint: it answers for who is signed in,
// and has anybody else sign in first.
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
		p.sendBack(w, r, a, &failure{"login_required", "nobody is signed in, or not recently enough"})
	default:
		http.Redirect(w, r, pathSignIn+"?"+r.Form.Encode(), http.StatusSeeOther)
	}
}

// requested reads an authorization request. Where there is a mistake in it,
// that is answered and the result is nil.
func (p *Provider) requested(w http.ResponseWriter, r *http.Request, values url.Values) *authorization {
	client, uri := p.clients[values.Get("client_id")], values.Get("redirect_uri")
	switch {
	case len(values["client_id"]) != 1 || client == nil:
		p.pages.failure(w, http.StatusBadRequest, "The client_id is missing or not one that is registered here.")
		return nil
	case len(values["redirect_uri"]) != 1 || !slices.Contains(client.RedirectURIs, uri):
		// Never redirected there: whoever made up the address would get the answer.
		p.pages.failure(w, http.StatusBadRequest, "The redirect_uri is missing or not one that the client has registered.")
		return nil
	}
	a := &authorization{client: client, redirectURI: uri, state: values.Get("state")}
	if f := a.read(values); f != nil {
		p.sendBack(w, r, a, f)
		return nil
	}
	return a
}

// read takes in what a request says beside the client and where to answer it.
// Unknown parameters and scopes are ignored, as the standards say.
func (a *authorization) read(values url.Values) *failure {
	for name, all := range values {
		if len(all) > 1 {
			return &failure{"invalid_request", "the parameter " + name + " is there more than once"}
		}
	}
	switch {
	case values.Get("response_type") == "":
		return &failure{"invalid_request", "response_type is missing; expected code"}
	case values.Get("response_type") != "code":
		return &failure{"unsupported_response_type", "expected code"}
	case values.Get("response_mode") != "" && values.Get("response_mode") != "query":
		return &failure{"invalid_request", "the response_mode is not known; expected query"}
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
		return &failure{"invalid_scope", "the scope must hold openid"}
	}
	a.nonce, a.loginHint = values.Get("nonce"), values.Get("login_hint")
	if f := a.readChallenge(values); f != nil {
		return f
	}
	return a.readPrompt(values)
}

// readChallenge takes in PKCE (RFC 7636, section 4.3), which no client may
// leave out.
func (a *authorization) readChallenge(values url.Values) *failure {
	if values.Get("code_challenge_method") != "S256" {
		return &failure{"invalid_request", "PKCE is needed, with the code_challenge_method S256"}
	}
	a.challenge = values.Get("code_challenge")
	sum, err := base64.RawURLEncoding.DecodeString(a.challenge)
	if err != nil || len(sum) != 32 {
		return &failure{"invalid_request", "the code_challenge is not a SHA-256 sum in base64url"}
	}
	return nil
}

// readPrompt takes in how the client wants the person to be asked. There is
// nothing to consent to and one account to select.
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
			return &failure{"invalid_request", "the prompt is not known; expected none, login, select_account or consent"}
		}
	}
	if a.silent && len(asked) > 1 {
		return &failure{"invalid_request", "the prompt none goes with no other"}
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

// satisfied reports whether being signed in like this is enough.
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
	p.redirect(w, r, a, url.Values{"code": {value}})
}

// sendBack sends the browser back to the client with an error (RFC 6749,
// section 4.1.2.1).
func (p *Provider) sendBack(w http.ResponseWriter, r *http.Request, a *authorization, f *failure) {
	p.redirect(w, r, a, url.Values{"error": {f.Code}, "error_description": {f.Description}})
}

// redirect adds state and issuer (RFC 9207) to an answer. The browser leaves
// any form behind, hence 303.
func (p *Provider) redirect(w http.ResponseWriter, r *http.Request, a *authorization, answer url.Values) {
	answer.Set("iss", p.options.Issuer)
	if a.state != "" {
		answer.Set("state", a.state)
	}
	http.Redirect(w, r, withQuery(a.redirectURI, answer), http.StatusSeeOther)
}

// withQuery adds parameters to a URI that may have some, which stay as they are.
func withQuery(uri string, more url.Values) string {
	switch {
	case len(more) == 0:
		return uri
	case strings.Contains(uri, "?"):
		return uri + "&" + more.Encode()
	}
	return uri + "?" + more.Encode()
}
