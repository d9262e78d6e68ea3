package forward

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"authgate/gateway/wire/conn"
)

// front starts a server for clients of a way. It speaks HTTP/1.x in cleartext, and HTTP/2 over TLS.
func (w *way) front(t *testing.T, http2 bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(w)
	s.Config.ConnContext = conn.Context
	if s.EnableHTTP2 = http2; http2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// prepare gives the way an idle connection to its upstream, which will send those bytes as the answer to the
// next request.
func (w *way) prepare(answer string, closes bool) {
	w.up.begin(answer, closes, true)
	w.ServeHTTP(&tape{header: http.Header{}}, request("GET", "/public/first"))
}

// send sends a request to a server, and returns all that comes back.
func send(t *testing.T, s *httptest.Server, head string) string {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, head+"\r\nHost: gw.example\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// overHTTP2 sends a GET to a server over HTTP/2. hints is told the informational responses. The body is read.
func overHTTP2(t *testing.T, s *httptest.Server, hints func(int, textproto.MIMEHeader) error) (*http.Response, string) {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: hints})
	q, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/public/script", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Host = "gw.example"
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true,
	}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return response, string(body)
}

// notHere are fields that have no meaning, or another one, outside of the header of a response.
const notHere = "Connection: keep-alive, X-Named\r\nX-Named: x\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\n" +
	"Upgrade: h2c\r\nTe: trailers\r\nProxy-Authenticate: Basic\r\n" +
	"Set-Cookie: session_id=x\r\nSet-Cookie2: a=b\r\nClear-Site-Data: \"cookies\"\r\n" +
	"Strict-Transport-Security: max-age=0\r\nAlt-Svc: h3=\":1\"\r\nWww-Authenticate: Negotiate\r\n" +
	"Authgate-Sign-In: https://evil.example/\r\nService-Worker-Allowed: /\r\n" +
	"Access-Control-Allow-Origin: *\r\nCache-Control: public\r\nSurrogate-Control: max-age=1\r\nVary: *\r\n"

// An informational response reaches the client of HTTP/1.1 and HTTP/2 without fields about the
// connection and fields that the gateway sets, whatever its status. A client of HTTP/1.0 gets none,
// and no client gets a 100 (Continue) that it did not ask for.
func TestInformationalFields(t *testing.T) {
	t.Parallel()
	for i, w := range newWays(t) {
		cleartext, secure := w.front(t, false), w.front(t, true)
		for status, phrase := range map[int]string{102: "Processing", 103: "Early Hints", 104: "", 199: ""} {
			answer := "HTTP/1.1 100 Continue\r\nLink: </b>\r\n\r\n" +
				fmt.Sprintf("HTTP/1.1 %d Odd\r\nLink: </a>\r\nLink: </c>\r\n%sX-Kept: y\r\n\r\n", status,
					notHere) + plainAnswer
			w.prepare(answer, false)
			want := fmt.Sprintf("HTTP/1.1 %d %s\r\nLink: </a>\r\nLink: </c>\r\nX-Kept: y\r\n\r\nHTTP/1.1 200 OK\r\n",
				status, phrase)
			if got := send(t, cleartext, "GET /public/script HTTP/1.1"); !strings.HasPrefix(got, want) ||
				!strings.HasSuffix(got, "\r\n\r\nok") {
				t.Errorf("way %d: %d over HTTP/1.1: %q", i, status, got)
			}
			w.prepare(answer, false)
			if got := send(t, cleartext, "GET /public/script HTTP/1.0"); !strings.HasPrefix(got,
				"HTTP/1.0 200 OK\r\n") ||
				strings.Contains(got, "Link") || !strings.HasSuffix(got, "\r\n\r\nok") {
				t.Errorf("way %d: %d over HTTP/1.0: %q", i, status, got)
			}
			w.prepare(answer, false)
			hints := map[int]textproto.MIMEHeader{}
			response, body := overHTTP2(t, secure, func(got int, h textproto.MIMEHeader) error {
				hints[got] = h
				return nil
			})
			wantHints := map[int]textproto.MIMEHeader{status: {"Link": {"</a>", "</c>"}, "X-Kept": {"y"}}}
			if response.StatusCode != 200 || response.ProtoMajor != 2 || body != "ok" ||
				fmt.Sprint(hints) != fmt.Sprint(wantHints) {
				t.Errorf("way %d: %d over HTTP/2: %v after %v", i, status, response, hints)
			}
		}
	}
}

// A field that Connection names stays here, whether the upstream closes the connection or not.
func TestNamedByConnection(t *testing.T) {
	t.Parallel()
	for i, w := range newWays(t) {
		cleartext := w.front(t, false)
		for _, options := range []string{
			"X-Named", "close, X-Named", "x-named , Close", "close\r\nConnection: X-Named",
			"X-Named\r\nConnection : close",
		} {
			named := "Connection: " + options + "\r\nX-Named: x\r\nX-Kept: y\r\n"
			w.prepare("HTTP/1.1 103 Early Hints\r\n"+named+"\r\n"+
				"HTTP/1.1 200 OK\r\n"+named+"Content-Length: 2\r\n\r\nok", true)
			got := send(t, cleartext, "GET /public/script HTTP/1.1")
			if strings.Contains(got, "X-Named") || strings.Count(got, "X-Kept: y\r\n") != 2 ||
				!strings.HasSuffix(got, "\r\n\r\nok") {
				t.Errorf("way %d, %q: %q", i, options, got)
			}
		}
	}
}

// The Location of an informational response is rewritten like that of others.
func TestInformationalLocation(t *testing.T) {
	t.Parallel()
	up := newScripted(t)
	r := newRig(t, urlKey("http://"+up.listener.Addr().String())+", rewrite_responses: true")
	up.begin("HTTP/1.1 104 Upload Resumption Supported\r\nLocation: http://"+up.listener.Addr().String()+"/up/1\r\n\r\n"+
		plainAnswer, false, true)
	got := &tape{header: http.Header{}}
	r.ServeHTTP(got, request("GET", "/public/script"))
	if want := "104\nLocation: https://gw.example/up/1\r\n200\n"; !strings.HasPrefix(got.notes.String(), want) {
		t.Errorf("the client gets %q, want %q", got.notes.String(), want)
	}
}

// A trailer reaches the client without fields that belong into a header (RFC 9110, section 6.5.1), and that the
// gateway decides on, whether they were announced or not. Only others are announced. A field of the
// header does not come again.
func TestTrailerFields(t *testing.T) {
	t.Parallel()
	const more = "Content-Length: 7\r\nTransfer-Encoding: gzip\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n" +
		"Content-Range: bytes 0-1/2\r\nTrailer: X-Other\r\nHost: evil.example\r\nAuthorization: x\r\nAge: 1\r\n" +
		"Date: now\r\nExpires: 0\r\nLocation: /x\r\nRetry-After: 1\r\n"
	for i, w := range newWays(t) {
		cleartext, secure := w.front(t, false), w.front(t, true)
		for _, announced := range []string{
			"", "X-End", "X-End, X-Spaced", "X-End, Set-Cookie, Authgate-Sign-In, Content-Type, Location",
			"Set-Cookie", "X-End, X-Never",
		} {
			answer := "HTTP/1.1 200 OK\r\nX-End: header\r\nTransfer-Encoding: chunked\r\n"
			if announced != "" {
				answer += "Trailer: " + announced + "\r\n"
			}
			answer += "\r\n2\r\nok\r\n0\r\n" + notHere + more + "X-End: z\r\nX-Spaced : y\r\n\r\n"
			w.prepare(answer, true)
			all := send(t, cleartext, "GET /public/script HTTP/1.1")
			response, err := http.ReadResponse(bufio.NewReader(strings.NewReader(all)), nil)
			if err != nil {
				t.Fatalf("%v in %q", err, all)
			}
			checkTrailer(t, fmt.Sprintf("way %d, HTTP/1.1, announced %q", i, announced), announced, response)
			if n := strings.Count(strings.ToLower(all), "set-cookie"); n > 0 {
				t.Errorf("way %d, announced %q: %q", i, announced, all)
			}
			w.prepare(answer, true)
			response, _ = overHTTP2(t, secure, nil)
			checkTrailer(t, fmt.Sprintf("way %d, HTTP/2, announced %q", i, announced), announced, response)
		}
	}
}

// checkTrailer checks the announced fields of a response, and its trailer.
func checkTrailer(t *testing.T, name, announced string, response *http.Response) {
	t.Helper()
	for field := range response.Trailer {
		if !strings.HasPrefix(field, "X-") && response.ProtoMajor == 1 { // of HTTP/2, the trailer is here already
			t.Errorf("%s: %s is announced", name, field)
		}
	}
	if _, err := io.ReadAll(response.Body); err != nil && response.ProtoMajor == 1 {
		t.Errorf("%s: %v", name, err)
	}
	maps.DeleteFunc(response.Trailer, func(_ string, values []string) bool { return values == nil })
	want := http.Header{"X-End": {"z"}, "X-Spaced": {"y"}, "X-Named": {"x"}}
	if !maps.EqualFunc(response.Trailer, want, slices.Equal) {
		t.Errorf("%s: the trailer is %v, want %v", name, response.Trailer, want)
	}
}

// A response that switches protocols reaches the client with nothing about the connection but the switch, and with
// the rules for other responses.
func TestSwitchingFields(t *testing.T) {
	t.Parallel()
	for i, w := range newWays(t) {
		s := w.front(t, false)
		w.prepare("HTTP/1.0 101 Odd \x01\r\nSec-WebSocket-Accept : s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nContent-Length: 7\r\n"+
			strings.Replace(notHere, "keep-alive, X-Named", "close, Upgrade, X-Named", 1)+"X-Kept: y\r\n\r\n", true)
		w.up.begin(strings.Replace(w.up.answer, "Upgrade: h2c", "Upgrade: websocket", 1), true, true)
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c,
			"GET /public/script HTTP/1.1\r\nHost: gw.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
				"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
		from := textproto.NewReader(bufio.NewReader(c))
		line, err := from.ReadLine()
		if err != nil || line != "HTTP/1.1 101 Switching Protocols" {
			t.Errorf("way %d: the first line is %q, %v", i, line, err)
		}
		h, err := from.ReadMIMEHeader()
		for name := range h {
			switch name {
			case "Connection", "Upgrade", "Sec-Websocket-Accept", "X-Kept",
				"Set-Cookie": // and what a public route lets through
			case "Strict-Transport-Security", "Alt-Svc", "Cache-Control", "Vary", "Access-Control-Allow-Origin",
				"Surrogate-Control", "Www-Authenticate":
			default:
				t.Errorf("way %d: the client gets %s: %q", i, name, h[name])
			}
		}
		if err != nil || !slices.Equal(h["Connection"], []string{"Upgrade"}) || h.Get("Upgrade") != "websocket" ||
			h.Get("X-Kept") != "y" || h.Get("Set-Cookie") == "session_id=x" {
			t.Errorf("way %d: %v, %v", i, h, err)
		}
	}
}
