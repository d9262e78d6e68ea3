package gateway

import (
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/gateway/wire/conn"
	"authgate/internal/test/must"
)

// echoless is an upstream that costs almost nothing, so that benchmarks measure the
// gateway's own work.
type echoless struct{}

var echolessBody = strings.Repeat("x", 100)

func (echoless) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header:        http.Header{"Content-Type": {"application/json"}, "Date": {"Thu, 01 Jan 1970 00:00:00 GMT"}},
		Body:          io.NopCloser(strings.NewReader(echolessBody)),
		ContentLength: int64(len(echolessBody)),
	}, nil
}

// nowhere is a client that discards the response.
type nowhere struct {
	header http.Header
	status int
}

func (w *nowhere) Header() http.Header         { return w.header }
func (w *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (w *nowhere) WriteHeader(status int)      { w.status = status }

// buffers lends buffers to a bare proxy.
type buffers struct{ sync.Pool }

const bufferSize = 32 << 10

func (b *buffers) Get() []byte {
	if buffer, ok := b.Pool.Get().(*[bufferSize]byte); ok {
		return buffer[:]
	}
	return make([]byte, bufferSize)
}

func (b *buffers) Put(buffer []byte) { b.Pool.Put((*[bufferSize]byte)(buffer)) }

// benchRig is a gateway with a memory store and an upstream without a network,
// and the credentials of alice and service.
func benchRig(b *testing.B) (*rig, map[string]string) { return benchRigFor(b, baseConfig) }

func benchRigFor(b *testing.B, yaml string) (*rig, map[string]string) {
	b.Helper()
	s := store.NewMemory(nil)
	b.Cleanup(func() { s.Close() })
	r, err := startRig(b, b.TempDir(), yaml, s, nil)
	if err != nil {
		b.Fatal(err)
	}
	r.service.Logger = slog.New(slog.NewJSONHandler(io.Discard, nil))
	r.through(echoless{})
	alice := r.login(aliceIn)
	return r, map[string]string{
		"basic": basicHeader("service", "s3rvice"), "session": alice.cookie, "bearer": alice.bearer, "public": "",
	}
}

var requestHeaders = []string{"User-Agent: wrk/4.2.0", "Accept: */*"}

// serveAgain serves a request again and again.
func serveAgain(b *testing.B, h http.Handler, q *http.Request) {
	b.Helper()
	b.ReportAllocs()
	w := &nowhere{header: http.Header{}}
	q = q.WithContext(conn.Context(q.Context(), nil)) // as a server has it
	for b.Loop() {
		clear(w.header)
		h.ServeHTTP(w, q)
		if w.status != http.StatusOK {
			b.Fatal(w.status)
		}
	}
}

// BenchmarkServe is a warm request from end to end without a network, compared
// with a bare proxy.
func BenchmarkServe(b *testing.B) {
	r, credentials := benchRig(b)
	b.Run("bare", func(b *testing.B) {
		target, err := url.Parse("http://app.invalid")
		if err != nil {
			b.Fatal(err)
		}
		bare := &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(target)
				r.SetXForwarded()
			},
			Transport: echoless{}, BufferPool: &buffers{}, ErrorLog: log.New(io.Discard, "", 0),
		}
		serveAgain(b, bare, request("GET", "/bearer/resource", "", append(requestHeaders, credentials["bearer"])...))
	})
	for _, mechanism := range []string{"public", "basic", "session", "bearer"} {
		b.Run(mechanism, func(b *testing.B) {
			header := append(requestHeaders, credentials[mechanism])
			serveAgain(b, r, request("GET", "/"+mechanism+"/resource", "", header...))
		})
	}
}

// BenchmarkVerify is the warm question of a proxy from end to end without a network, in the form of nginx
// and in that of Traefik.
func BenchmarkVerify(b *testing.B) {
	r, credentials := benchRigFor(b, namedUpstream(b, verifyConfig))
	forms := map[string][]string{
		"nginx": append(asNginx("GET", "gw.example", "/any/page?x=1"), "X-Forwarded-Proto: https",
			"X-Forwarded-Host: gw.example"),
		"traefik": asTraefik("GET", "gw.example", "/any/page?x=1"),
	}
	for form, described := range forms {
		for _, mechanism := range []string{"session", "bearer"} {
			b.Run(form+", "+mechanism, func(b *testing.B) {
				q := question("192.0.2.7", slices.Concat(described, requestHeaders, []string{credentials[mechanism]})...)
				serveAgain(b, r, q)
			})
		}
	}
}

// BenchmarkForward is a request with a session by either way, over a connection to an
// upstream.
func BenchmarkForward(b *testing.B) {
	for _, fast := range []string{"true", "false"} {
		b.Run("fast_path: "+fast, func(b *testing.B) {
			yaml := edit(b, baseConfig, `url: "http://app.invalid"`, `fast_path: `+fast+`, url: "http://app.invalid"`)
			r := newNetworkRig(b, yaml, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
			b.ReportAllocs()
			q := request("GET", "/any/resource", "", append(requestHeaders, r.login(aliceIn).cookie)...)
			q = q.WithContext(conn.Context(q.Context(), nil)) // as a server has it
			to := &nowhere{header: http.Header{}}
			for b.Loop() {
				clear(to.header)
				if r.ServeHTTP(to, q); to.status != http.StatusOK {
					b.Fatal(to.status)
				}
			}
		})
	}
}

// BenchmarkCheck is the cost of the checks of 10,000 streams.
func BenchmarkCheck(b *testing.B) {
	r, credentials := benchRig(b)
	for _, mechanism := range []string{"basic", "session", "bearer"} {
		b.Run("10000, "+mechanism, func(b *testing.B) {
			st := r.state.Load()
			open := make([]*exchange, 10_000)
			for i := range open {
				ex := r.begin(&nowhere{}, request("GET", "/"+mechanism+"/resource", "", credentials[mechanism]))
				if err := ex.read(); err != nil {
					b.Fatal(err)
				}
				ex.route = st.routing.lookup(&ex.Canonical)
				id, err := ex.identify()
				if err != nil {
					b.Fatal(err)
				}
				if err := ex.decide(id); err != nil {
					b.Fatal(err)
				}
				open[i] = ex
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, ex := range open {
					if err := ex.Check(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkPasskeySignIn is a whole sign-in with a passkey: the options, the check of the
// answer, and the session. What the authenticator does is not measured.
func BenchmarkPasskeySignIn(b *testing.B) {
	r, _ := newFileRig(b, "accounts.yaml", fileAccounts)
	r.service.Logger = slog.New(slog.NewJSONHandler(io.Discard, nil))
	key := newAuthenticator()
	r.addPasskey(key, "phone", r.login(aliceIn).cookie)
	for b.Loop() {
		options := r.do("POST", "/signin/passkey/options", "{}", jsonType).Body.Bytes()
		b.StopTimer()
		answer := string(must.Get(key.Get(options))(b))
		r.clock.Advance(time.Second) // else the address begins too many sign-ins
		b.StartTimer()
		w := r.do("POST", "/signin/passkey", answer, jsonType)
		b.StopTimer()
		if w.Code != http.StatusOK {
			b.Fatalf("a sign-in with a passkey: %d %s", w.Code, w.Body)
		}
		session := w.Result().Cookies()[0] // no user has thousands of logins
		r.want(http.StatusOK, "POST", "/logout", "", "Cookie: "+session.Name+"="+session.Value)
		b.StartTimer()
	}
}
