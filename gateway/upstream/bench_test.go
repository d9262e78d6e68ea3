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
	answer := strings.Repeat("x", 100)
	a := newApplication(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the client sees that it is cut off
		_, _ = io.WriteString(w, answer)
	})
	f := newFixture(b, time.Minute, a.URL)
	others := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: idlePerHost}
	defer others.CloseIdleConnections()
	for way, transport := range map[string]http.RoundTripper{"http1": f.Transport(0).(*balancer).transport, "http.Transport": others} {
		for request, body := range map[string]string{"GET": "", "POST 1 KiB": strings.Repeat("x", 1<<10), "POST 64 KiB": strings.Repeat("x", 64<<10)} {
			b.Run(way+" "+request, func(b *testing.B) {
				b.ReportAllocs()
				r, err := http.NewRequestWithContext(b.Context(), strings.Fields(request)[0], a.URL, nil)
				if err != nil {
					b.Fatal(err)
				}
				r.ContentLength = int64(len(body))
				for b.Loop() {
					if body != "" {
						r.Body = io.NopCloser(struct{ io.Reader }{strings.NewReader(body)}) // as a server's
					}
					response, err := transport.RoundTrip(r)
					if err != nil {
						b.Fatal(err)
					}
					if n, err := io.Copy(io.Discard, response.Body); n != int64(len(answer)) || err != nil {
						b.Fatal(n, err)
					}
					response.Body.Close()
				}
			})
		}
	}
}
