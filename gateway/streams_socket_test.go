package gateway

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// A WebSocket whose login ends is closed with 1008, and nothing that its client
// says afterwards reaches the upstream.
func TestSocketSignedOut(t *testing.T) {
	t.Parallel()
	signedOut := append([]byte{0x88, 12, 0x03, 0xf0}, "signed out"...)
	for name, story := range map[string]func(e *ends){
		"answered": func(e *ends) {
			e.hears("the client", e.fromGateway, signedOut)
			e.say(e.client, clientsBye)
			e.hears("the upstream", e.upstream, clientsBye)
			e.upstream.Close()
			e.silent()
		},
		"it goes on talking": func(e *ends) {
			e.hears("the client", e.fromGateway, signedOut)
			e.say(e.client, frame(fin|opcodeText, 300, 2, true))
			e.say(e.client, append(frame(fin|opcodeText, 5, 0, true), clientsBye...))
			e.hears("the upstream", e.upstream, clientsBye)
			e.upstream.Close()
			e.silent()
		},
		"it does not answer": func(e *ends) {
			e.hears("the client", e.fromGateway, signedOut)
			var talking sync.WaitGroup
			talking.Go(func() {
				for err := error(nil); err == nil; _, err = e.client.Write(frame(fin|opcodeText, 5, 0, true)) {
					time.Sleep(time.Millisecond)
				}
			})
			if got, _ := io.ReadAll(e.upstream); len(got) > 0 {
				e.t.Errorf("%d bytes reach the upstream", len(got))
			}
			talking.Wait()
		},
		"it does not read": func(e *ends) {
			if got, _ := io.ReadAll(e.upstream); len(got) > 0 {
				e.t.Errorf("%d bytes reach the upstream", len(got))
			}
		},
		"the upstream is in the middle of a frame": func(e *ends) {
			e.hears("the client", e.fromGateway, nil)
			if got, _ := io.ReadAll(e.fromGateway); len(got) > 0 {
				e.t.Errorf("the client gets %x", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
				in := r.login(aliceIn)
				e := upgradingAt(t, r, dial, "/session/", in.cookie)
				defer e.client.Close()
				defer e.upstream.Close()
				e.switched()
				e.say(e.client, text)
				e.hears("the upstream", e.upstream, text)
				if strings.HasPrefix(name, "the upstream") {
					e.say(e.upstream, text[:4])
					e.hears("the client", e.fromGateway, text[:4])
				}
				time.Sleep(time.Minute)
				r.do("POST", "/logout", "", in.cookie)
				ended := time.Now()
				story(e)
				r.sockets.wait()
				if took := time.Since(ended); took > within {
					t.Errorf("ended after %v", took)
				}
				if line := r.log.last(t, "request"); line["status"] != 101.0 || !strings.HasPrefix(fmt.Sprint(line["reason"]), "the login has ended") {
					t.Errorf("logged %v", line)
				}
			})
		})
	}
}

// A WebSocket that a stop has told to leave does not get a second Close frame.
func TestSocketSignedOutInAStop(t *testing.T) {
	t.Parallel()
	listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		in := r.login(aliceIn)
		e := upgradingAt(t, r, dial, "/session/", in.cookie)
		defer e.upstream.Close()
		e.switched()
		r.sockets.leave(time.Now().Add(time.Hour))
		e.hears("the client", e.fromGateway, goodbye)
		r.do("POST", "/logout", "", in.cookie)
		ended := time.Now()
		e.silent()
		if took := time.Since(ended); took > within {
			t.Errorf("ended after %v", took)
		}
	})
}
