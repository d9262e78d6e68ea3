package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestSilentClientOfAStream: over HTTP/2 a client that has sent a part of its
// body and then listens gets messages for longer than limits.body_pause. When
// the response falls silent too, the stream ends.
func TestSilentClientOfAStream(t *testing.T) {
	t.Parallel()
	const pause = 3 * time.Second
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := control.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(r.Body, make([]byte, 5)); err != nil {
			t.Errorf("reading what the client sends: %v", err)
		}
		tick := time.NewTicker(pause / 30)
		defer tick.Stop()
		for began := time.Now(); time.Since(began) < 2*pause; <-tick.C {
			if _, err := io.WriteString(w, "m"); err != nil || control.Flush() != nil {
				t.Errorf("the response was cut after %v", time.Since(began))
				return
			}
		}
		_, _ = io.WriteString(w, "last")
		_ = control.Flush()
		_, _ = io.Copy(io.Discard, r.Body) // silent until the gateway gives up
	}))
	t.Cleanup(up.Close)
	g := start(t, targets+app(up.URL)+"limits: {body_pause: 3s}\n")
	body, send := io.Pipe()
	defer send.Close()
	go func() { _, _ = io.WriteString(send, "hello") }()
	request, err := http.NewRequest("POST", g.base+"/stream", body)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	answer, err := g.stranger().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if answer.ProtoMajor != 2 || err == nil || !strings.HasSuffix(string(got), "mlast") {
		t.Errorf("%s: %d bytes that end in %.10q, then %v\n%s", answer.Proto, len(got), got[max(0, len(got)-10):], err, g.log)
	}
	if took := time.Since(began); took < 3*pause {
		t.Errorf("the stream ended after %v", took)
	}
}
