package web

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strconv"
	"sync"
	"testing"
)

// TestResetAmidHints: a client that resets its stream while informational
// responses are sent does not make two goroutines use one map, which ends the
// process. The race detector finds it reliably. AUTHGATE_STRESS=N makes N requests.
func TestResetAmidHints(t *testing.T) {
	t.Parallel()
	requests := 300
	if many := os.Getenv("AUTHGATE_STRESS"); many != "" {
		var err error
		if requests, err = strconv.Atoi(many); err != nil {
			t.Fatal(err)
		}
	}
	site := newExchange(t, request("/")).site
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ex Exchange
		ex.Init(site, w, r)
		for range 4 { // as httputil.ReverseProxy
			h := ex.Header()
			for i := range 100 { // so that encoding takes some time
				h.Set("X-Hint-"+strconv.Itoa(i), "</style.css>; rel=preload")
			}
			ex.WriteHeader(http.StatusEarlyHints)
			clear(h)
		}
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	reset := func() {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		trace := &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
			cancel()
			return nil
		}}
		q, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		if answer, err := server.Client().Do(q); err == nil {
			answer.Body.Close()
		}
	}
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range requests / 4 {
				reset()
			}
		})
	}
	clients.Wait()
}
