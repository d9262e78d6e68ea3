package clients

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/internal/test/must"
)

const appDocument = `{"client_id": "{ID}", "client_name": "App",
	"redirect_uris": ["https://app.example.org/cb", "http://localhost/cb", "vscode:/cb"],
	"grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code",
	"client_credentials", "implicit"],
	"response_types": ["code"], "token_endpoint_auth_method": "none", "scope": "read write",
	"post_logout_redirect_uris": ["https://app.example.org/"], "logo_uri": "https://app.example.org/logo.png",
	"backchannel_logout_uri": "https://inside.example/logout", "contacts": null}`

// A client is what its document says, as far as everybody may have it.
func TestDocument(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := newRig(t, "oauth: {scopes: {read: []}}", s, "127.0.0.1")
	id := s.document("/app.json", appDocument)
	client, err := r.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	got := Client{
		ID: client.ID, Name: client.Name, Document: client.Document, RedirectURIs: client.RedirectURIs,
		Grants: client.Grants, method: client.method, PostLogout: client.PostLogout,
		BackchannelLogout: client.BackchannelLogout, Scopes: client.Scopes,
	}
	want := Client{
		ID: id, Name: "App", Document: true, RedirectURIs: []string{"https://app.example.org/cb", "http://localhost/cb"},
		Grants: []string{"authorization_code", "refresh_token", "device_code"}, method: methodNone,
		PostLogout: []string{"https://app.example.org/"}, Scopes: []string{"read"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Client{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !client.May("urn:ietf:params:oauth:grant-type:device_code") || client.May("client_credentials") ||
		client.Confidential() {
		t.Errorf("%+v", client)
	}
}

// What is no document of this client, or says what a public document cannot, is no client.
func TestDocumentRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := newRig(t, "{}", s, "127.0.0.1")
	const redirects = `"redirect_uris": ["https://app.example.org/cb"]`
	for name, c := range map[string]struct{ text, want string }{
		"of another client":  {`{"client_id": "{ID}.other", ` + redirects + `}`, "client_id is"},
		"without its name":   {`{` + redirects + `}`, "client_id is"},
		"another spelling":   {`{"client_id": "{ID}?", ` + redirects + `}`, "client_id is"},
		"twice":              {`{"client_id": "{ID}", "client_id": "{ID}", ` + redirects + `}`, "double members"},
		"no object":          {`["{ID}"]`, "one JSON object"},
		"null":               {`null`, "one JSON object"},
		"no JSON":            {`<html>`, "one JSON object"},
		"a secret":           {`{"client_id": "{ID}", "client_secret": "x", ` + redirects + `}`, "has a secret"},
		"a secret that ends": {`{"client_id": "{ID}", "client_secret_expires_at": 0, ` + redirects + `}`, "has a secret"},
		"secret method": {`{"client_id": "{ID}", "token_endpoint_auth_method": "client_secret_basic", ` + redirects + `}`,
			"token_endpoint_auth_method"},
		"method without keys": {
			`{"client_id": "{ID}", "token_endpoint_auth_method": "private_key_jwt", ` + redirects + `}`,
			"neither jwks nor jwks_uri"},
		"keys twice": {`{"client_id": "{ID}", "jwks": {"keys": []}, "jwks_uri": "https://127.0.0.1/keys", ` + redirects + `}`,
			"cannot both"},
		"no keys":      {`{"client_id": "{ID}", "jwks": "none", ` + redirects + `}`, "jwks"},
		"no redirects": {`{"client_id": "{ID}"}`, "redirect_uris must have"},
		"other schemes": {
			`{"client_id": "{ID}", "redirect_uris": ["javascript:alert(1)", "http://app.example.org/cb"]}`,
			"redirect_uris must have"},
		"a fragment":    {`{"client_id": "{ID}", "redirect_uris": ["https://app.example.org/#cb"]}`, "has a fragment"},
		"a text":        {`{"client_id": "{ID}", "redirect_uris": "https://app.example.org/cb"}`, "list of strings"},
		"numbers":       {`{"client_id": "{ID}", "redirect_uris": [1]}`, "list of strings"},
		"bad grants":    {`{"client_id": "{ID}", "grant_types": ["implicit"], ` + redirects + `}`, "grant_types"},
		"bad responses": {`{"client_id": "{ID}", "response_types": ["token"], ` + redirects + `}`, "response_types"},
		"bad scope":     {`{"client_id": "{ID}", "scope": "a\"b", ` + redirects + `}`, "scope"},
		"turned name":   {`{"client_id": "{ID}", "client_name": "\u202egro.elgoog", ` + redirects + `}`, "direction of text"},
		"long name": {`{"client_id": "{ID}", "client_name": "` + strings.Repeat("x", 201) + `", ` + redirects + `}`,
			"longer than"},
		"too long": {`{"client_id": "{ID}", ` + redirects + `, "x": "` + strings.Repeat("x", maxDocument) + `"}`,
			"longer than"},
	} {
		_, err := r.Find(t.Context(), s.document("/"+strings.ReplaceAll(name, " ", "-"), c.text))
		if !errors.Is(err, ErrUnknown) || errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an ErrUnknown with %q", name, err, c.want)
		}
	}
}

// The URL of a document has one form, and nothing is fetched from another one.
func TestDocumentURLs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := newRig(t, "{}", s, "127.0.0.1")
	for _, id := range []string{
		"http://127.0.0.1/app.json", "HTTPS://127.0.0.1/app.json", s.URL, s.URL + "/", s.URL + "/app.json#x",
		s.URL + "/a/../app.json", s.URL + "/a/%2e%2e/app.json", s.URL + "/./app.json",
		s.URL + `\app.json`, s.URL + `/a\..\app.json`,
		strings.Replace(s.URL, "https://", "https://user@", 1) + "/app.json", s.URL + "/app .json", s.URL + "/app\t.json",
		s.URL + "/" + strings.Repeat("x", maxURL), "https:/127.0.0.1/app.json", "https:///app.json", "https://",
		"https://example.com/app.json", "file:///etc/passwd", "",
	} {
		if client, err := r.Find(t.Context(), id); !errors.Is(err, ErrUnknown) || errors.Is(err, ErrUnreachable) {
			t.Errorf("%.60q: %v, %v", id, client, err)
		}
	}
	if n := s.connections.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
	off := newRig(t, "oauth: {metadata_clients: {enabled: false}}", s, "127.0.0.1")
	if _, err := off.Find(t.Context(), s.document("/app.json", appDocument)); !errors.Is(err, ErrUnknown) {
		t.Errorf("metadata_clients are off: %v", err)
	}
	if s.connections.Load() != 0 {
		t.Error("metadata_clients are off, and a connection was made")
	}
}

// A document leads the gateway to no address inside: not by its address in any form, not by a
// name, whatever that resolves to when the connection is made.
func TestDocumentsPointInside(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := newRig(t, "{}", s)
	port := must.Get(url.Parse(s.URL))(t).Port()
	s.document("/app.json", appDocument)
	for _, host := range []string{
		"127.0.0.1", "localhost", "rebound.example.com", "a.b.attacker.example", "[::1]", "[::ffff:127.0.0.1]",
		"[::ffff:7f00:1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "[::127.0.0.1]", "[::]", "0.0.0.0", "127.1",
		"2130706433", "0x7f000001", "0177.0.0.1", "169.254.169.254", "[fe80::1]", "[fd00::1]", "10.0.0.1", "100.64.0.1",
	} {
		_, err := r.Find(t.Context(), "https://"+net.JoinHostPort(strings.Trim(host, "[]"), port)+"/app.json")
		if !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: %v, want ErrUnreachable", host, err)
		}
	}
	if n := s.connections.Load(); n != 0 {
		t.Errorf("%d connections reached what is inside", n)
	}
	if r.documents.fetcher.http.Transport.(*http.Transport).Proxy != nil {
		t.Error("a proxy would connect to what is inside")
	}
}

// A redirect is not followed, and the keys of a client are fetched by the rules of documents.
func TestDocumentsLeadNowhereElse(t *testing.T) {
	t.Parallel()
	s, inside := newSite(t), newSite(t)
	r := newRig(t, "{}", s, "example.com")
	at := func(path string) string { return strings.Replace(s.URL, "127.0.0.1", "example.com", 1) + path }
	secret := inside.document("/admin", `{"keys": []}`)
	for _, status := range []int{301, 302, 303, 307, 308, 300, 204, 401, 404} {
		s.put("/app.json", func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Location", secret)
			w.WriteHeader(status)
		})
		if _, err := r.Find(t.Context(), at("/app.json")); !errors.Is(err, ErrUnknown) || errors.Is(err, ErrUnreachable) {
			t.Errorf("%d: %v", status, err)
		}
		r.clock.Advance(time.Minute)
	}
	for _, keys := range []string{secret, strings.Replace(secret, "https", "http", 1), "file:///etc/passwd"} {
		text := `{"client_id": "` + at("/keys.json") + `", "redirect_uris": ["https://app.example.org/cb"],
			"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "` + keys + `"}`
		s.document("/keys.json", text)
		_, err := r.authenticate(newKeys(t).request(t, at("/keys.json"), nil))
		if !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%s: %v", keys, err)
		}
		r.clock.Advance(time.Hour)
	}
	if n := inside.connections.Load(); n != 0 {
		t.Errorf("%d connections reached what is inside", n)
	}
}

// A document is kept as long as its site says, within bounds.
func TestDocumentsAreKept(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"": freshUsually, "max-age=600": 10 * time.Minute, "public, MAX-AGE=600": 10 * time.Minute,
		`max-age="600"`: 10 * time.Minute, "max-age=1": freshAtLeast, "max-age=9999999": freshAtMost,
		"no-store": freshAtLeast, "max-age=600, no-cache": freshAtLeast, "max-age=-1": freshUsually, "max-age": freshUsually,
	} {
		if got := freshFor(http.Header{"Cache-Control": {header}}); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
	s := newSite(t)
	r := newRig(t, "{}", s, "127.0.0.1")
	id := s.document("/app.json", appDocument)
	for range 3 {
		must.Get(r.Find(t.Context(), id))(t)
	}
	r.clock.Advance(freshUsually)
	must.Get(r.Find(t.Context(), id))(t)
	if n := s.count("/app.json"); n != 2 {
		t.Errorf("fetched %d times, want 2", n)
	}
}

// A site that does not answer ends nothing for a day; one that answers otherwise ends the
// client. A failure is not repeated at once.
func TestDocumentsFail(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := newRig(t, "{}", s, "127.0.0.1")
	id := s.document("/app.json", appDocument)
	must.Get(r.Find(t.Context(), id))(t)
	s.put("/app.json", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	r.clock.Advance(time.Hour)
	for range 3 {
		if _, err := r.Find(t.Context(), id); err != nil {
			t.Fatalf("a site that does not answer: %v", err)
		}
	}
	if n := s.count("/app.json"); n != 2 {
		t.Errorf("fetched %d times, want 2", n)
	}
	r.clock.Advance(usedAtMost)
	if _, err := r.Find(t.Context(), id); !errors.Is(err, ErrUnreachable) {
		t.Errorf("after a day without an answer: %v", err)
	}
	s.document("/app.json", appDocument)
	if _, err := r.Find(t.Context(), id); !errors.Is(err, ErrUnreachable) {
		t.Errorf("at once after a failure: %v", err)
	}
	r.clock.Advance(failedFor)
	must.Get(r.Find(t.Context(), id))(t)
	s.put("/app.json", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	r.clock.Advance(freshUsually)
	if _, err := r.Find(t.Context(), id); !errors.Is(err, ErrUnknown) || errors.Is(err, ErrUnreachable) {
		t.Errorf("gone: %v", err)
	}
	s.Close()
	r.clock.Advance(failedFor)
	if _, err := r.Find(t.Context(), id); !errors.Is(err, ErrUnreachable) {
		t.Errorf("gone, then no answer: %v", err)
	}
}

// Requests that come together share one fetch, which goes on when one of them leaves.
func TestDocumentsAreFetchedOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := newRig(t, "{}", s, "127.0.0.1")
	asked, answer := make(chan struct{}), make(chan struct{})
	id := s.put("/app.json", nil)
	s.put("/app.json", func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		_, _ = io.WriteString(w, strings.ReplaceAll(appDocument, "{ID}", id))
	})
	leaving, leave := context.WithCancel(t.Context())
	first := make(chan error)
	go func() {
		_, err := r.Find(leaving, id)
		first <- err
	}()
	<-asked
	var others sync.WaitGroup
	errs := make([]error, 5)
	for i := range errs {
		others.Go(func() { _, errs[i] = r.Find(t.Context(), id) })
	}
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("who leaves gets %v", err)
	}
	close(answer)
	others.Wait()
	if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) || s.count("/app.json") != 1 {
		t.Errorf("fetched %d times: %v", s.count("/app.json"), errs)
	}
}

// A site that does not answer in time is given up, and so is one that sends its document slowly.
func TestDocumentsThatTakeLong(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := newRig(t, "{}", s, "127.0.0.1")
	r.documents.fetcher.timeout = 50 * time.Millisecond
	silent := s.put("/silent.json", func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	slow := s.put("/slow.json", func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.WriteString(w, "{")
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
	})
	for _, id := range []string{silent, slow} {
		if _, err := r.Find(t.Context(), id); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// A site that ends its document because it is given up has sent no document.
func TestDocumentThatEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t, "{}", newSite(t), "127.0.0.1")
	r.documents.fetcher.timeout = 50 * time.Millisecond
	r.documents.fetcher.http.Transport = givenUp{}
	if _, err := r.Find(t.Context(), "https://127.0.0.1/app.json"); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
}

// givenUp is a site whose document ends when its request is given up.
type givenUp struct{}

func (givenUp) RoundTrip(q *http.Request) (*http.Response, error) {
	body, end := io.Pipe()
	context.AfterFunc(q.Context(), func() { end.Close() })
	return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
}
