package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"authgate/gateway/identity/clients"
	"authgate/gateway/login/grants"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// How the browser takes an answer to the client.
const (
	modeQuery = "query"
	modePost  = "form_post"
)

// request is an authorization request (RFC 6749, section 4.1.1; OpenID Connect Core 1.0,
// section 3.1.2.1).
type request struct {
	values    url.Values
	client    *clients.Client
	redirect  string // where the answer goes: one of the client's redirect URIs
	post      bool   // it goes there as a form (OAuth 2.0 Form Post Response Mode)
	terms     grants.Terms
	challenge string // of PKCE (RFC 7636)

	noPage       bool // prompt=none: the user must see no page
	freshSignIn  bool // the user must sign in for this request
	freshProof   bool // by proving who they are once more
	freshConsent bool // the user must decide again
	maxAge       time.Duration
	subject      string    // of the user whom id_token_hint means; empty: any
	ledToSignIn  time.Time // when the request has led the user to a sign-in; zero: it has not
}

// readClient reads who asks, and where the answer goes. Its errors are pages: there is no
// address yet to which an error could be sent.
func (s *authorization) readClient(ex *web.Exchange, values url.Values) (*request, error) {
	id, err := single(values, "client_id")
	if err != nil {
		return nil, err
	}
	redirect, err := single(values, "redirect_uri")
	if err != nil {
		return nil, err
	}
	client, err := s.findClient(ex, id)
	if err != nil {
		return nil, err
	}
	if !client.Redirects(redirect) {
		return nil, page("The application asks to send you to an address that is not registered for it.",
			fmt.Errorf("the redirect URI %q of the client %q is not registered", redirect, client.ID))
	}
	return &request{
		values: values, client: client, redirect: redirect, post: values.Get("response_mode") == modePost,
		ledToSignIn: s.forms.askedAt(values),
	}, nil
}

// findClient returns the client of an ID, for a page.
func (s *core) findClient(ex *web.Exchange, id string) (*clients.Client, error) {
	client, err := s.clients.Find(&ex.Store, id, ex.Peer.Client)
	switch {
	case errors.Is(err, clients.ErrUnreachable): // which is an ErrUnknown too
		return nil, page("The application that sent you here does not answer, so that nothing is known about it.", err)
	case errors.Is(err, clients.ErrUnknown):
		return nil, page("The application that sent you here is not known.", err)
	}
	return client, err
}

// page is a 400 for a user whom an application has sent here.
func page(detail string, cause error) error {
	return &web.Error{Status: http.StatusBadRequest, Detail: detail, Cause: cause}
}

// single returns a parameter that must be there once.
func single(values url.Values, name string) (string, error) {
	if len(values[name]) != 1 {
		return "", page("The application that sent you here must give the parameter "+name+" once.", nil)
	}
	return values[name][0], nil
}

// fill reads the rest of a request. Its errors are refusals.
func (s *authorization) fill(r *request) error {
	for name, values := range r.values {
		if len(values) > 1 && name != "resource" {
			return refuse(codeInvalidRequest, "A parameter is there more than once.")
		}
	}
	get := r.values.Get
	switch {
	case get("request") != "", get("request_uri") != "":
		return refuse(codeRequestNotSupported,
			"Give the parameters themselves: request and request_uri are not supported.")
	case get("response_type") == "":
		return refuse(codeInvalidRequest, "The parameter response_type is needed: code.")
	case get("response_type") != "code":
		return refuse(codeUnsupportedResponse, "response_type must be code.")
	case get("response_mode") != "" && get("response_mode") != modeQuery && !r.post:
		return refuse(codeInvalidRequest, "response_mode must be query or form_post.")
	case !r.client.May(grantCode):
		return refuse(codeUnauthorizedClient, "The client may not use the authorization code grant.")
	}
	if err := r.readPKCE(); err != nil {
		return err
	}
	var err error
	if r.terms, err = s.terms(r.client, r.values); err != nil {
		return err
	}
	r.terms.Nonce = get("nonce")
	if err := r.readPrompt(); err != nil {
		return err
	}
	if hint := get("id_token_hint"); hint != "" {
		known, err := s.readHint(hint)
		if err != nil {
			return refuse(codeInvalidRequest, "id_token_hint is no ID token of this provider.")
		}
		r.subject = known.subject
	}
	return nil
}

// readPKCE reads the code challenge, which every client must send (OAuth 2.1, section 4.1.1),
// unless the operator has excused it.
func (r *request) readPKCE() error {
	r.challenge = r.values.Get("code_challenge")
	switch method := r.values.Get("code_challenge_method"); {
	case r.challenge == "" && method == "" && r.client.ExcusedPKCE:
		return nil
	case r.challenge == "":
		return refuse(codeInvalidRequest, "PKCE is needed: code_challenge, and code_challenge_method=S256.")
	case method != "S256":
		return refuse(codeInvalidRequest, "code_challenge_method must be S256.")
	case len(r.challenge) != challengeLength || strings.ContainsFunc(r.challenge, notBase64URL):
		return refuse(codeInvalidRequest, "code_challenge must be a SHA-256 in base64url, without padding.")
	}
	return nil
}

// challengeLength is the length of a SHA-256 in base64url.
const challengeLength = 43

func notBase64URL(c rune) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_')
}

// readPrompt reads the steps that the user must repeat, whatever they have done before.
func (r *request) readPrompt() error {
	prompts := strings.Fields(r.values.Get("prompt"))
	for _, prompt := range prompts {
		switch prompt {
		case "none":
			r.noPage = true
		case "login":
			r.freshSignIn, r.freshProof = true, true
		case "select_account": // who signs in chooses the account
			r.freshSignIn = true
		case "consent":
			r.freshConsent = true
		default:
			return refuse(codeInvalidRequest, "prompt must be none, login, select_account or consent.")
		}
	}
	if r.noPage && len(prompts) > 1 {
		return refuse(codeInvalidRequest, "prompt=none must be the only value.")
	}
	age := r.values.Get("max_age")
	if age == "" {
		return nil
	}
	seconds, err := strconv.ParseUint(age, 10, 31)
	if err != nil {
		return refuse(codeInvalidRequest, "max_age must be a number of seconds.")
	}
	r.freshSignIn, r.freshProof = r.freshSignIn || seconds == 0, r.freshProof || seconds == 0
	r.maxAge = time.Duration(seconds) * time.Second
	return nil
}

// age returns how old the sign-in may be by the request.
func (r *request) age() policy.Demand { return policy.Demand{MaxAge: r.maxAge} }

// askedLifetime is how long a sign-in serves the request that has led to it. The browser keeps the
// way back, which must not serve for ever.
const askedLifetime = time.Hour

// needsSignIn reports whether the user must sign in for the request. demand is that of the client's
// policy. id is nil for a user who is not signed in. Once the request has led to a sign-in, the age
// that it demands is met (OpenID Connect Core 1.0, section 3.1.2.1): a user who takes their time on
// the page of consent would else be asked for ever.
func (r *request) needsSignIn(id *policy.Identity, demand policy.Demand, now time.Time) bool {
	if id == nil || !demand.Met(&id.Proof, now) {
		return true
	}
	if !r.ledToSignIn.IsZero() && !id.SignedIn.Before(r.ledToSignIn) && now.Sub(id.SignedIn) <= askedLifetime {
		return !r.age().Met(&id.Proof, id.SignedIn)
	}
	return r.freshSignIn || r.ledToSignIn.IsZero() && r.otherUser(id) || !r.age().Met(&id.Proof, now)
}

// providerDidNotAsk reports whether a provider has answered from its own session when the user was to prove once
// more who they are: it says that they did so before the request. Its clock may be behind.
func (r *request) providerDidNotAsk(id *policy.Identity) bool {
	if !r.freshProof || r.ledToSignIn.IsZero() || id.AuthTime.IsZero() {
		return false
	}
	return id.AuthTime.Before(r.ledToSignIn.Add(-time.Minute))
}

// otherUser reports whether the request is for another user than the one who is signed in.
func (r *request) otherUser(id *policy.Identity) bool {
	return r.subject != "" && r.subject != subjectOf(id)
}

// subjectOf returns the subject of a user for clients: the name of a local account, else the
// provider and the subject there.
func subjectOf(id *policy.Identity) string {
	if id.Provider == policy.LocalProvider {
		return id.Username
	}
	return id.Subject
}

// complete adds the state and the issuer to an answer (RFC 9207).
func (s *authorization) complete(r *request, answer url.Values) url.Values {
	answer.Set("iss", s.issuer)
	if states := r.values["state"]; len(states) == 1 {
		answer.Set("state", states[0])
	}
	return answer
}

// location returns where the browser goes with an answer.
func (r *request) location(answer url.Values) string {
	separator := "?"
	switch {
	case strings.HasSuffix(r.redirect, "?"), strings.HasSuffix(r.redirect, "&"):
		separator = ""
	case strings.Contains(r.redirect, "?"):
		separator = "&"
	}
	return r.redirect + separator + answer.Encode()
}
