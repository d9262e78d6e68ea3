package e2e

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

const (
	typeJSON = "application/json"
	typeForm = "application/x-www-form-urlencoded"
	right    = `{"username":"alice","password":"wonderland"}`
)

// badInput is a request to an own endpoint and the status it must have.
type badInput struct {
	path, media, body string
	want              int
}

var badInputs = map[string]badInput{
	"login: nothing":             {"/login", "", "", 401},
	"login: empty":               {"/login", typeJSON, "", 400},
	"login: cut off":             {"/login", typeJSON, `{"username":"alice","password":"wonder`, 400},
	"login: no quotes":           {"/login", typeJSON, `{username:alice}`, 400},
	"login: array":               {"/login", typeJSON, `["alice","wonderland"]`, 400},
	"login: null":                {"/login", typeJSON, `null`, 400},
	"login: string":              {"/login", typeJSON, `"alice"`, 400},
	"login: number":              {"/login", typeJSON, `7`, 400},
	"login: something behind it": {"/login", typeJSON, right + `x`, 400},
	"login: two objects":         {"/login", typeJSON, right + right, 400},
	"login: member twice":        {"/login", typeJSON, `{"username":"bob","username":"alice","password":"wonderland"}`, 400},
	"login: member twice, once escaped": {
		"/login", typeJSON, `{"\u0075sername":"bob","username":"alice","password":"wonderland"}`, 400,
	},
	"login: number for a name":          {"/login", typeJSON, `{"username":7,"password":"wonderland"}`, 400},
	"login: null for a name":            {"/login", typeJSON, `{"username":null,"password":"wonderland"}`, 400},
	"login: object for a password":      {"/login", typeJSON, `{"username":"alice","password":{}}`, 400},
	"login: array for a password":       {"/login", typeJSON, `{"username":"alice","password":["wonderland"]}`, 400},
	"login: no name":                    {"/login", typeJSON, `{"password":"wonderland"}`, 400},
	"login: no password":                {"/login", typeJSON, `{"username":"alice"}`, 400},
	"login: other case of a member":     {"/login", typeJSON, `{"Username":"alice","PASSWORD":"wonderland"}`, 400},
	"login: empty name":                 {"/login", typeJSON, `{"username":"","password":"wonderland"}`, 401},
	"login: empty password":             {"/login", typeJSON, `{"username":"alice","password":""}`, 401},
	"login: both empty":                 {"/login", typeJSON, `{"username":"","password":""}`, 401},
	"login: a NUL":                      {"/login", typeJSON, `{"username":"alice","password":"wonderland\u0000"}`, 401},
	"login: long password":              {"/login", typeJSON, `{"username":"alice","password":"` + strings.Repeat("x", 60_000) + `"}`, 401},
	"login: not UTF-8":                  {"/login", typeJSON, "{\"username\":\"alice\",\"password\":\"wonder\xffland\"}", 400},
	"login: byte order mark":            {"/login", typeJSON, "\xef\xbb\xbf" + right, 400},
	"login: deep arrays":                {"/login", typeJSON, strings.Repeat("[", 60_000), 400},
	"login: deep objects":               {"/login", typeJSON, strings.Repeat(`{"username":`, 5_000), 400},
	"login: deep and closed":            {"/login", typeJSON, `{"a":` + strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000) + `}`, 400},
	"login: plain text":                 {"/login", "text/plain", right, 415},
	"login: XML":                        {"/login", "application/xml", right, 415},
	"login: multipart":                  {"/login", "multipart/form-data; boundary=x", right, 415},
	"login: no media type":              {"/login", "", right, 415},
	"login: broken media type":          {"/login", "application/json; =", right, 415},
	"login: other character set":        {"/login", "application/json; charset=iso-8859-1", right, 415},
	"login: form without a name":        {"/login", typeForm, "password=wonderland", 400},
	"login: form without a password":    {"/login", typeForm, "username=alice", 400},
	"login: form with two names":        {"/login", typeForm, "username=bob&username=alice&password=wonderland", 400},
	"login: form with broken encoding":  {"/login", typeForm, "username=alice&password=%zz", 400},
	"login: form that is not UTF-8":     {"/login", typeForm, "username=alice&password=%ff", 400},
	"login: form with an empty name":    {"/login", typeForm, "username=&password=wonderland", 401},
	"login: form, an empty password":    {"/login", typeForm, "username=alice&password=", 401},
	"login: unknown mechanism":          {"/login?mechanism=basic", typeJSON, right, 400},
	"login: empty mechanism":            {"/login?mechanism=", typeJSON, right, 400},
	"login: two mechanisms":             {"/login?mechanism=session&mechanism=bearer", typeJSON, right, 400},
	"login: broken query":               {"/login?mechanism=%zz", typeJSON, right, 400},
	"refresh: nothing":                  {"/refresh", "", "", 415},
	"refresh: empty":                    {"/refresh", typeJSON, "", 400},
	"refresh: cut off":                  {"/refresh", typeJSON, `{"refresh_token":"x`, 400},
	"refresh: array":                    {"/refresh", typeJSON, `["x"]`, 400},
	"refresh: null":                     {"/refresh", typeJSON, `null`, 400},
	"refresh: something behind it":      {"/refresh", typeJSON, `{"refresh_token":"x"}]`, 400},
	"refresh: member twice":             {"/refresh", typeJSON, `{"refresh_token":"x","refresh_token":"y"}`, 400},
	"refresh: number":                   {"/refresh", typeJSON, `{"refresh_token":7}`, 400},
	"refresh: null for a token":         {"/refresh", typeJSON, `{"refresh_token":null}`, 400},
	"refresh: no token":                 {"/refresh", typeJSON, `{}`, 400},
	"refresh: not UTF-8":                {"/refresh", typeJSON, "{\"refresh_token\":\"\xff\"}", 400},
	"refresh: deep":                     {"/refresh", typeJSON, strings.Repeat(`[`, 60_000), 400},
	"refresh: empty token":              {"/refresh", typeJSON, `{"refresh_token":""}`, 401},
	"refresh: garbage":                  {"/refresh", typeJSON, `{"refresh_token":"garbage"}`, 401},
	"refresh: long garbage":             {"/refresh", typeJSON, `{"refresh_token":"` + strings.Repeat("A", 60_000) + `"}`, 401},
	"refresh: form":                     {"/refresh", typeForm, `refresh_token=x`, 415},
	"refresh: no media type":            {"/refresh", "", `{"refresh_token":"x"}`, 415},
	"login: one byte more than 64 KiB":  {"/login", typeJSON, right + strings.Repeat(" ", 64<<10-len(right)+1), 413},
	"refresh: a byte more than 64 KiB":  {"/refresh", typeJSON, strings.Repeat(" ", 64<<10+1), 413},
	"logout: one byte more than 64 KiB": {"/logout", typeJSON, strings.Repeat(" ", 64<<10+1), 413},
}

// badBasic are values of an Authorization header that hold no credential.
var badBasic = map[string]string{
	"nothing":             "Basic",
	"broken base64":       "Basic %%%",
	"base64url":           "Basic " + base64.URLEncoding.EncodeToString([]byte("service:\xff\xfe\xfb")),
	"no padding":          "Basic " + base64.RawStdEncoding.EncodeToString([]byte("alice:wonderland")),
	"no colon":            basicOf("alicewonderland"),
	"not UTF-8":           basicOf("alice:wonder\xffland"),
	"empty":               basicOf(""),
	"empty name":          basicOf(":wonderland"),
	"empty password":      basicOf("alice:"),
	"both empty":          basicOf(":"),
	"a control character": basicOf("alice:wonder\x00land"),
	"two words":           basicOf("alice:wonderland") + " x",
}

func basicOf(credential string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(credential))
}

// inputs has a route for each mechanism, and room for many failed logins.
const inputs = people + `
limits: {login_failures: 10000}
routes:
  - {match: /basic, upstream: app, auth: [basic]}
  - {match: /secure, upstream: app, auth: [session, bearer]}
`

// TestBadInput: a clear error, and nothing is lost.
func TestBadInput(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, inputs+app(up.url))
	c := g.stranger()
	before := g.signIn(c, "alice")
	for name, bad := range badInputs {
		t.Run(name, func(t *testing.T) {
			headers := []string{}
			if bad.media != "" {
				headers = []string{"Content-Type", bad.media}
			}
			a := g.do(c, "POST", bad.path, bad.body, headers...)
			wantProblem(t, a, bad.want)
			if got := a.header.Values("Set-Cookie"); len(got) > 0 {
				t.Errorf("it sets a cookie: %q", got)
			}
		})
	}
	for name, value := range badBasic {
		t.Run("Basic: "+name, func(t *testing.T) {
			for method, path := range map[string]string{"POST": "/login", "GET": "/basic"} {
				a := g.do(c, method, path, "", "Authorization", value)
				wantProblem(t, a, http.StatusUnauthorized)
				if got := a.header.Get("WWW-Authenticate"); got != `Basic realm="authgate", charset="UTF-8"` {
					t.Errorf("%s: challenge %q", path, got)
				}
			}
		})
	}
	up.none(t)
	stillThere(t, g, before)
}

// stillThere: what was there before is there, and there can be more.
func stillThere(t *testing.T, g *instance, before signIn) {
	t.Helper()
	c := g.stranger()
	for _, s := range []signIn{before, g.signIn(c, "alice")} {
		for _, credential := range [][]string{{"Cookie", s.session}, {"Authorization", s.access}} {
			if got := g.status(c, "GET", "/secure", credential...); got != http.StatusOK {
				t.Errorf("%s: %d", credential[0], got)
			}
		}
		if _, status, err := g.tryRefresh(c, s.refresh); err != nil || status != http.StatusOK {
			t.Errorf("refresh: %d, %v", status, err)
		}
	}
	if got := g.status(c, "GET", "/basic", "Authorization", basicService); got != http.StatusOK {
		t.Errorf("Basic: %d", got)
	}
}

// TestLargestBody: what is just not too large is read.
func TestLargestBody(t *testing.T) {
	t.Parallel()
	g := start(t, inputs+app(record(t).url))
	body := right + strings.Repeat(" ", 64<<10-len(right))
	if a := g.do(g.stranger(), "POST", "/login", body, "Content-Type", "application/json; charset=UTF-8"); a.status != http.StatusOK {
		t.Errorf("a body of 64 KiB: %d %s", a.status, a.body)
	}
}

// TestHugeBodies: 413, in both protocols, with and without a length.
func TestHugeBodies(t *testing.T) {
	t.Parallel()
	g := start(t, inputs+app(record(t).url))
	before := g.signIn(g.stranger(), "alice")
	huge := strings.Repeat("x", 10<<20)
	for protocol, c := range map[string]*http.Client{"HTTP/2": g.stranger(), "HTTP/1.1": g.stranger11()} {
		for _, at := range []struct{ path, authorization string }{
			{"/login", ""}, {"/login", basicOf("alice:wonderland")}, {"/refresh", ""}, {"/logout", ""},
		} {
			for kind, body := range map[string]io.Reader{
				"length":    strings.NewReader(huge),
				"no length": io.MultiReader(strings.NewReader(huge)),
			} {
				t.Run(protocol+at.path+" "+at.authorization+" "+kind, func(t *testing.T) {
					request, err := http.NewRequest("POST", g.base+at.path, body)
					if err != nil {
						t.Fatal(err)
					}
					request.Header.Set("Content-Type", typeJSON)
					if at.authorization != "" {
						request.Header.Set("Authorization", at.authorization)
					}
					wantTooLarge(t, c, request)
				})
			}
		}
	}
	stillThere(t, g, before)
}

func wantTooLarge(t *testing.T, c *http.Client, request *http.Request) {
	t.Helper()
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	wantProblem(t, answer{status: response.StatusCode, header: response.Header, body: string(body)}, http.StatusRequestEntityTooLarge)
}

// TestHugeHeaders: 431.
func TestHugeHeaders(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, inputs+app(up.url))
	before := g.signIn(g.stranger(), "alice")
	for name, header := range map[string]string{
		"one value":  "X-Large: " + strings.Repeat("x", 1<<20) + "\n",
		"many lines": strings.Repeat("X-Large: "+strings.Repeat("x", 1000)+"\n", 1000),
		"a cookie":   "Cookie: session_id=" + strings.Repeat("x", 1<<20) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			if a := g.raw(t, "GET /basic HTTP/1.1\nHost: localhost\n"+header+"\n"); a.status != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("HTTP/1.1: %d", a.status)
			}
		})
	}
	t.Run("the target", func(t *testing.T) {
		if a := g.raw(t, "GET /"+strings.Repeat("x", 1<<20)+" HTTP/1.1\nHost: localhost\n\n"); a.status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("HTTP/1.1: %d", a.status)
		}
	})
	t.Run("HTTP/2", func(t *testing.T) {
		status, err := g.get2(t, "/basic", slices.Repeat([]field{{"x-large", strings.Repeat("x", 100)}}, 500)...)
		if err != nil || status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%d, %v", status, err)
		}
	})
	up.none(t)
	stillThere(t, g, before)
}

// TestSlowClients: nobody keeps the gateway waiting for ever.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	g := start(t, inputs+app(record(t).url))
	for name, text := range map[string]string{
		"a body":   "POST /login HTTP/1.1\nHost: localhost\nContent-Type: application/json\nContent-Length: 44\n\n{\"username\"",
		"a header": "POST /login HTTP/1.1\nHost: localhost\nContent-Ty",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := g.dial(t, "http/1.1")
			if _, err := io.WriteString(conn, crlf(text)); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(conn) // until the gateway has had enough
			if err != nil {
				t.Error(err)
			}
			if name == "a body" && !strings.HasPrefix(string(got), "HTTP/1.1 400 ") {
				t.Errorf("the answer is %q", got)
			}
		})
	}
	t.Run("a body by HTTP/2", func(t *testing.T) {
		t.Parallel()
		body, never := io.Pipe()
		defer never.Close()
		request, err := http.NewRequest("POST", g.base+"/login", body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", typeJSON)
		response, err := g.stranger().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if _, err := io.Copy(io.Discard, response.Body); response.StatusCode != http.StatusBadRequest || (err != nil && !errors.Is(err, io.EOF)) {
			t.Errorf("status %d, %v", response.StatusCode, err)
		}
	})
}

// refusal is a request that is not let through, and the status it must have.
type refusal struct {
	method, path, authorization string
	want                        int
}

// TestStalledBodies: whoever is not let through gets to know it, whether or not
// the body of the request ever comes, and nothing of it goes any further.
func TestStalledBodies(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	g := start(t, inputs+`
  - {match: /page/, upstream: app, auth: [session], unauthenticated: redirect}
  - {match: /admin, upstream: app, auth: [bearer], policy: {roles: [admin]}}
`+app(listen(t, func(net.Conn) { reached.Add(1) })))
	c := g.stranger()
	refusals := []refusal{
		{"POST", "/basic", basicOf("service:wrong"), 401},
		{"POST", "/secure", "", 401},
		{"POST", "/admin", g.signIn(c, "bob").access, 403},
		{"POST", "/nowhere", "", 404},
		{"GET", "/page/", "", 302},
		{"POST", "/page", "", 401},
	}
	check := func(protocol string, r refusal, status int, err error) {
		t.Helper()
		if status != r.want || err != nil {
			t.Errorf("%s %s by %s: %d, %v; expected %d", r.method, r.path, protocol, status, err, r.want)
		}
	}
	halves := []string{"Content-Length: 10\n\nhalf", "Transfer-Encoding: chunked\n\n4\nhalf\n"}
	var waiting []net.Conn // one for each refusal and half
	for _, r := range refusals {
		for _, half := range halves {
			waiting = append(waiting, r.stall(t, g, half))
		}
	}
	for _, r := range refusals {
		status, err := r.stall2(t, g, c)
		check("HTTP/2", r, status, err)
	}
	for i, conn := range waiting {
		a, err := readAnswer(bufio.NewReader(conn))
		check("HTTP/1.1", refusals[i/len(halves)], a.status, err)
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
	if got := g.status(c, "POST", "/basic", "Authorization", basicService); got != http.StatusBadGateway || reached.Load() == 0 {
		t.Errorf("who is let through: %d, and %d requests reached the upstream", got, reached.Load())
	}
}

// stall sends the request over HTTP/1.1 up to the middle of its body.
func (r refusal) stall(t *testing.T, g *instance, half string) net.Conn {
	t.Helper()
	conn := g.dial(t, "http/1.1")
	text := fmt.Sprintf("%s %s HTTP/1.1\nHost: localhost\nAuthorization: %s\n%s", r.method, r.path, r.authorization, half)
	if _, err := io.WriteString(conn, crlf(text)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// stall2 sends the request over HTTP/2 without the body that it announces, and
// returns the status.
func (r refusal) stall2(t *testing.T, g *instance, c *http.Client) (int, error) {
	t.Helper()
	body, never := io.Pipe()
	defer never.Close()
	request, err := http.NewRequest(r.method, g.base+r.path, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", r.authorization)
	response, err := c.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}
