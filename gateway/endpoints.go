package gateway

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"authgate/gateway/pages"
	"authgate/gateway/strictjson"
	"authgate/policy"
)

const (
	// maxOwnBody is how large a body own endpoints read.
	maxOwnBody = 64 << 10
	// ownBodyTime is how long they wait for it, and how long the answer to a
	// request that goes no further waits for a body that nobody reads.
	ownBodyTime = 10 * time.Second
)

// endpoint is one of the gateway's own: its name for logs and metrics, and
// what it does for each method.
type endpoint struct {
	name    string
	methods map[string]func(*exchange) error
}

// ownEndpoints are the endpoints by their paths. They stand before routes.
func (st *state) ownEndpoints() map[string]endpoint {
	type methods = map[string]func(*exchange) error
	byPath := map[string]endpoint{}
	for name, m := range map[string]methods{
		"login":                 {"GET": (*exchange).startSignIn, "POST": (*exchange).login},
		"logout":                {"GET": (*exchange).logoutByLink, "POST": (*exchange).logout},
		"refresh":               {"POST": (*exchange).refresh},
		"me":                    {"GET": (*exchange).me},
		"signin":                {"GET": (*exchange).signIn},
		"callback":              {"GET": (*exchange).callback},
		"auth/callback":         {"GET": (*exchange).callback},
		".well-known/jwks.json": {"GET": (*exchange).keys},
	} {
		byPath[st.own(name)] = endpoint{name: "authgate/" + name, methods: m}
	}
	if st.csrf != nil {
		byPath[st.own("csrf-token")] = endpoint{name: "authgate/csrf-token", methods: methods{"GET": (*exchange).giveToken}}
	}
	for _, party := range st.providers {
		byPath[st.own("backchannel-logout/"+party.Name())] = endpoint{
			name: "authgate/backchannel-logout", methods: methods{"POST": backChannel(party)},
		}
		byPath[st.own("frontchannel-logout/"+party.Name())] = endpoint{
			name: "authgate/frontchannel-logout", methods: methods{"GET": frontChannel(party)},
		}
	}
	return byPath
}

func (ex *exchange) serveOwn(e endpoint) error {
	ex.label = e.name
	if err := ex.readBody(); err != nil {
		return err
	}
	method := ex.req.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	serve, ok := e.methods[method]
	if !ok {
		allowed := slices.Sorted(maps.Keys(e.methods))
		if allowed[0] == http.MethodGet {
			allowed = slices.Insert(allowed, 1, http.MethodHead)
		}
		return &httpError{
			status: http.StatusMethodNotAllowed, allow: strings.Join(allowed, ", "),
			detail: "This endpoint answers " + strings.Join(allowed, ", ") + ".",
		}
	}
	if method != http.MethodGet {
		if err := ex.sameOrigin(); err != nil {
			return err
		}
	}
	ex.decision = decisionAllow // unless there is an error
	return serve(ex)
}

// whoAsks is the identity that is proved by anything but Basic.
func (ex *exchange) whoAsks() (*policy.Identity, error) {
	id, err := ex.prove(ex.st.signedIn)
	if err != nil {
		ex.challenges = ex.st.signedIn.Challenges(&ex.creds)
		return nil, err
	}
	ex.identify(id)
	return id, nil
}

// me answers who is signed in, by cookie or bearer; a browser gets a page.
func (ex *exchange) me() error {
	id, err := ex.whoAsks()
	if err != nil {
		return err
	}
	if negotiate(ex.r) == typeHTML {
		ex.page(http.StatusOK, func(p *pages.Pages) error {
			return p.Account(ex, pages.Account{
				Username: id.Username, Name: id.Name, Email: id.Email, Roles: id.Roles,
				Mechanism: string(id.Mechanism), Provider: id.Provider, Expires: id.Expires,
				LogoutAction: ex.st.own("logout"), LogoutToken: ex.formToken(id.Login),
			})
		})
		return nil
	}
	roles := id.Roles
	if roles == nil {
		roles = []string{}
	}
	ex.json(typeJSON, http.StatusOK, struct {
		Username  string           `json:"username"`
		Name      string           `json:"name"`
		Email     string           `json:"email"`
		Roles     []string         `json:"roles"`
		Mechanism policy.Mechanism `json:"mechanism"`
		Provider  string           `json:"provider"`
		ExpiresAt time.Time        `json:"expires_at,omitzero"`
	}{id.Username, id.Name, id.Email, roles, id.Mechanism, id.Provider, id.Expires.UTC().Truncate(time.Second)})
	return nil
}

// keys publishes the public keys of access tokens (RFC 7517).
func (ex *exchange) keys() error {
	ex.Header().Set("Cache-Control", "public, max-age=300")
	ex.json(typeJSON, http.StatusOK, json.RawMessage(ex.st.jwks))
	return nil
}

// queryValue returns a parameter of the query that stands there once.
func (ex *exchange) queryValue(name string) string {
	values, err := url.ParseQuery(ex.req.Path.Query)
	if err != nil || len(values[name]) != 1 {
		return ""
	}
	return values[name][0]
}

// returnTo returns target if it is a path on this origin, else nothing: a
// target that is canonical for the gateway is a path for every browser too.
func (ex *exchange) returnTo(target string) string {
	if _, err := policy.ParseTarget(target); err != nil {
		return ""
	}
	return target
}

// readBody reads the body of an own endpoint, whole and in bounded time, be it
// of use or not. After an error the time limit stays, because the server goes
// on to read what is left before it sends the answer.
func (ex *exchange) readBody() error {
	if ex.r.ContentLength == 0 {
		return nil
	}
	ex.limitBody()
	if ex.r.ContentLength > maxOwnBody {
		return &http.MaxBytesError{Limit: maxOwnBody}
	}
	body, err := io.ReadAll(http.MaxBytesReader(ex.ResponseWriter, ex.r.Body, maxOwnBody))
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		_ = http.NewResponseController(ex.ResponseWriter).SetReadDeadline(time.Time{}) // nothing is left to come
		ex.body = body
		return nil
	case errors.As(err, &tooLarge):
		return err
	}
	return &httpError{status: http.StatusBadRequest, detail: "The body could not be read.", cause: err}
}

// mediaType is the request's Content-Type without parameters; a body in
// another character set than UTF-8 is no type that is known.
func (ex *exchange) mediaType() string {
	media, params, err := mime.ParseMediaType(ex.r.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return ""
	}
	return media
}

// object is a JSON object, strictly read.
type object map[string]json.RawMessage

// parseObject reads body as one JSON object without double members.
func parseObject(body []byte) (object, error) {
	var o object
	err := strictjson.Unique(body)
	if err == nil {
		err = json.Unmarshal(body, &o)
	}
	if err != nil || o == nil || !utf8.Valid(body) {
		// Without the parser's words: they quote the body, which has secrets.
		return nil, &httpError{status: http.StatusBadRequest, detail: "The body must be one JSON object, in UTF-8, without double members."}
	}
	return o, nil
}

// text returns the string under name; anything else there is a 400.
func (o object) text(name string) (string, error) {
	var s *string
	raw, ok := o[name]
	if ok {
		if err := json.Unmarshal(raw, &s); err != nil {
			s = nil
		}
	}
	if s == nil {
		return "", &httpError{
			status: http.StatusBadRequest, detail: `The body must have the string field "` + name + `".`,
			cause: errors.New("missing or of another type"),
		}
	}
	return *s, nil
}
