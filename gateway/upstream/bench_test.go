package upstream

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// BenchmarkRoundTrip is the way to an upstream on this machine and back, beside
// http.Transport. The upstream's work is in it.
func BenchmarkRoundTrip(b *testing.B) {
	a := newApplication(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the client sees that it is cut off
		_, _ = io.WriteString(w, strings.Repeat("x", 100))
	})
	f := newFixture(b, time.Minute, a.URL)
	others := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: idlePerHost}
	defer others.CloseIdleConnections()
	for way, transport := range map[string]http.RoundTripper{"http1": f.way.(*balancer).transport, "http.Transport": others} {
		for request, length := range map[string]int{"GET": 0, "POST 1 KiB": 1 << 10, "POST 64 KiB": 64 << 10} {
			b.Run(way+" "+request, func(b *testing.B) {
				b.ReportAllocs()
				r, err := http.NewRequestWithContext(b.Context(), strings.Fields(request)[0], a.URL, nil)
				if err != nil {
					b.Fatal(err)
				}
				r.ContentLength = int64(length)
				body := strings.Repeat("x", length)
				for b.Loop() {
					if length > 0 {
						r.Body = io.NopCloser(struct{ io.Reader }{strings.NewReader(body)}) // as a server's
					}
					response, err := transport.RoundTrip(r)
					if err != nil {
						b.Fatal(err)
					}
					if n, err := io.Copy(io.Discard, response.Body); n != 100 || err != nil {
						b.Fatal(n, err)
					}
					response.Body.Close()
				}
			})
		}
	}
}
