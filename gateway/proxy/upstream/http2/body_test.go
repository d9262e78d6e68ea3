package http2

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// An error in the body of a request is that of the client.
func TestBrokenBody(t *testing.T) {
	t.Parallel()
	broken := errors.New("the client has left")
	inBubble(t, func(*peer, uint32, int) {}, func(u *upstream) {
		c := u.client(time.Minute)
		defer c.CloseIdleConnections()
		_, err := u.ask(c, "POST", io.MultiReader(strings.NewReader("x"), failing{broken}))
		if !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
	})
}

// An upload that the upstream does not take is given up after the time limit. One that the client does not send is not.
func TestStalledUpload(t *testing.T) {
	t.Parallel()
	for _, stops := range []bool{true, false} {
		inBubble(t, func(p *peer, stream uint32, _ int) { p.respond(stream, "200") }, func(u *upstream) {
			u.stops = stops
			c := u.client(30 * time.Second)
			defer c.CloseIdleConnections()
			start := time.Now()
			status, err := u.ask(c, "POST", &slow{parts: 4})
			took := time.Since(start)
			if stops && (!isTimeout(err) || took > 5*time.Minute) || !stops && (status != 200 || took < 4*time.Minute) {
				t.Errorf("the upstream stops %t: %d, %v after %v", stops, status, err, took)
			}
		})
	}
}

// An upstream may answer, reset a stream or close its connection before the body of the request has come. That is an
// answer at once, although the client sends nothing meanwhile.
func TestEarlyEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		early  func(p *peer, stream uint32)
		status int // 0: an error, with the code
		code   string
	}{
		{"answer", func(p *peer, stream uint32) { p.respond(stream, "413") }, 413, ""},
		{"answer with a body", func(p *peer, stream uint32) {
			p.begin(stream, "200")
			_ = p.WriteData(stream, true, []byte("x"))
		}, 200, ""},
		{"reset", func(p *peer, stream uint32) { _ = p.WriteRSTStream(stream, http2.ErrCodeCancel) }, 0, "CANCEL"},
		{"end", func(p *peer, _ uint32) { p.closes = true }, 0, ""},
	} {
		inBubble(t, nil, func(u *upstream) {
			u.early = c.early
			client := u.client(time.Hour)
			defer client.CloseIdleConnections()
			body, sender := io.Pipe()
			defer time.AfterFunc(time.Minute, func() { sender.Close() }).Stop()
			start := time.Now()
			status, err := u.ask(client, "POST", body)
			if status != c.status || time.Since(start) > endAfter {
				t.Errorf("%s: %d, %v after %v", c.name, status, err, time.Since(start))
			}
			if err != nil && !strings.Contains(err.Error(), c.code) {
				t.Errorf("%s: the error is %v", c.name, err)
			}
			sender.Close()
		})
	}
}

// What a client sends after the end of an attempt belongs to the next one.
func TestBodyAfterEnd(t *testing.T) {
	t.Parallel()
	var peers []*peer
	answer := func(p *peer, stream uint32, _ int) { p.respond(stream, "200") }
	inBubble(t, answer, func(u *upstream) {
		u.early = func(p *peer, _ uint32) { peers = append(peers, p) }
		c := u.client(time.Minute)
		defer c.CloseIdleConnections()
		body, sender := io.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			if status, err := u.ask(c, "POST", body); status != 200 {
				t.Errorf("%d, %v", status, err)
			}
		}()
		send := func(part string) {
			if _, err := io.WriteString(sender, part); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		send("first ")
		_ = peers[0].WriteGoAway(0, http2.ErrCodeNo, nil)
		synctest.Wait()
		send("second ")
		send("third")
		sender.Close()
		<-done
		if got := strings.Join(u.bodies, ","); got != "first second third" || len(peers) != 2 {
			t.Errorf("the upstream gets %q on %d connections", got, len(peers))
		}
	})
}

// A response that comes before the body of the request is whole, although the client goes on sending. net/http gives
// the rest of the body up if the response is not a success, and else when the response is closed.
func TestEarlyResponse(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"413", "200"} {
		testEarlyResponse(t, status)
	}
}

func testEarlyResponse(t *testing.T, status string) {
	var p *peer
	inBubble(t, nil, func(u *upstream) {
		u.early = func(connection *peer, stream uint32) {
			p = connection
			p.begin(stream, status)
		}
		c := u.client(time.Minute)
		defer c.CloseIdleConnections()
		content, sender := io.Pipe()
		r, err := http.NewRequestWithContext(u.t.Context(), "POST", "http://app.invalid/", content)
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := sender.Write(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if kept := response.Body.(*body).sent.read; status == "200" && kept != nil {
			t.Errorf("%d bytes are kept for another attempt", len(kept))
		}
		_ = p.WriteData(1, true, []byte("too large"))
		if got, err := io.ReadAll(response.Body); string(got) != "too large" || err != nil {
			t.Errorf("%s: %q, %v", status, got, err)
		}
		response.Body.Close()
		sender.Close()
	})
}

// Once a response has begun, no more of the body is kept, and the attempt goes on with what was kept before.
func TestSettledBody(t *testing.T) {
	t.Parallel()
	r, err := http.NewRequestWithContext(t.Context(), "POST", "http://app.invalid/", strings.NewReader("kept, passed on"))
	if err != nil {
		t.Fatal(err)
	}
	body := newReplay(r)
	begin := func() *attempt { return &attempt{replay: body, watch: &watch{over: true}, cancel: func(error) {}} }
	first := begin()
	if _, err := io.ReadFull(first, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	first.Close()
	second := begin()
	second.settle()
	sent, err := io.ReadAll(second)
	if string(sent) != "kept, passed on" || err != nil {
		t.Errorf("the second attempt sends %q, %v", sent, err)
	}
	if body.read != nil || body.whole() {
		t.Errorf("%q is kept", body.read)
	}
}

// slow is a body in parts of 32 KiB, each after a minute.
type slow struct{ parts int }

func (s *slow) Read(b []byte) (int, error) {
	if s.parts--; s.parts < 0 {
		return 0, io.EOF
	}
	time.Sleep(time.Minute)
	return copy(b, make([]byte, 32<<10)), nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
