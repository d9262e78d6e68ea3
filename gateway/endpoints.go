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

	"authgate/gateway/auth"
	"authgate/gateway/pages"
	"authgate/policy"
)

const (
	// maxOwnBody is how large a body own endpoints read.
	maxOwnBody = 64 << 10
	// ownBodyTime is how long they wait for it.
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
		".well-known/jwks.json": {"GET": (*exchange).keys},
	} {
		byPath[st.own(name)] = endpoint{name: "authgate/" + name, methods: m}
	}
	return byPath
}

func (ex *exchange) serveOwn(e endpoint) error {
	ex.label = e.name
	method := ex.req.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	serve, ok := e.methods[method]
	if !ok {
		allowed := slices.Sorted(maps.Keys(e.methods))
		return &httpError{
			status: http.StatusMethodNotAllowed, allow: strings.Join(allowed, ", "),
			detail: "This endpoint answers " + strings.Join(allowed, " and ") + ".",
		}
	}
	if method != http.MethodGet {
		if err := ex.sameOrigin(); err != nil {
			return err
		}
	}
	if err := serve(ex); err != nil {
		return err
	}
	ex.decision = decisionAllow
	return nil
}

// me answers who is signed in, by cookie or bearer; a browser gets a page.
func (ex *exchange) me() error {
	id, err := ex.st.signedIn.Authenticate(ex.r.Context(), &ex.creds)
	if err != nil {
		ex.challenges = ex.st.signedIn.Challenges(&ex.creds)
		return err
	}
	ex.identify(id)
	if negotiate(ex.r) == typeHTML {
		ex.page(http.StatusOK, func(p *pages.Pages) error {
			return p.Account(ex, pages.Account{
				Username: id.Username, Name: id.Name, Email: id.Email, Roles: id.Roles,
				Mechanism: string(id.Mechanism), Provider: id.Provider, Expires: id.Expires,
				LogoutAction: ex.st.own("logout"),
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
		ExpiresAt string           `json:"expires_at"`
	}{id.Username, id.Name, id.Email, roles, id.Mechanism, id.Provider, id.Expires.UTC().Format(time.RFC3339)})
	return nil
}

// keys publishes the public keys of access tokens (RFC 7517).
func (ex *exchange) keys() error {
	ex.Header().Set("Cache-Control", "public, max-age=300")
	ex.json(typeJSON, http.StatusOK, json.RawMessage(ex.st.jwks))
	return nil
}

// startSignIn is GET /login: with no provider to go to, it is the sign-in page.
func (ex *exchange) startSignIn() error {
	target := ex.st.own("signin")
	if back := ex.returnTo(ex.queryValue("return_to")); back != "" {
		target += "?return_to=" + url.QueryEscape(back)
	}
	ex.redirect(http.StatusFound, target)
	return nil
}

// signIn is the page where a person signs in.
func (ex *exchange) signIn() error {
	ex.signInPage(http.StatusOK, pages.SignIn{ReturnTo: ex.returnTo(ex.queryValue("return_to"))})
	return nil
}

func (ex *exchange) signInPage(status int, page pages.SignIn) {
	page.Action = ex.st.own("login")
	page.Password = ex.st.accounts.Len() > 0
	ex.page(status, func(p *pages.Pages) error { return p.SignIn(ex, page) })
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

// readBody reads the body of an own endpoint, whole and in bounded time.
func (ex *exchange) readBody() ([]byte, error) {
	if ex.r.ContentLength > maxOwnBody {
		return nil, &http.MaxBytesError{Limit: maxOwnBody}
	}
	control := http.NewResponseController(ex.ResponseWriter)
	// Servers that know no deadlines (tests) have none to miss.
	if err := control.SetReadDeadline(time.Now().Add(ownBodyTime)); err == nil {
		defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	}
	body, err := io.ReadAll(http.MaxBytesReader(ex.ResponseWriter, ex.r.Body, maxOwnBody))
	var tooLarge *http.MaxBytesError
	if err != nil && !errors.As(err, &tooLarge) {
		return nil, &httpError{status: http.StatusBadRequest, detail: "The body could not be read.", cause: err}
	}
	return body, err
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
	err := auth.UniqueMembers(body)
	if err == nil {
		err = json.Unmarshal(body, &o)
	}
	if err == nil && o == nil {
		err = errors.New("null")
	}
	if err == nil && !utf8.Valid(body) {
		err = errors.New("invalid UTF-8")
	}
	if err != nil {
		return nil, &httpError{status: http.StatusBadRequest, detail: "The body must be one JSON object.", cause: err}
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
