package load

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"

	"authgate/e2e/bench/role"
)

// heldAnswers is how long an answer on a held connection may take. An event takes longer.
const heldAnswers = 10 * time.Second

// Held are open connections to one server.
type Held []held

// held is an open connection. ask asks for one answer on it.
type held interface {
	ask() error
	close()
}

// Hold opens n connections, a few at a time, and asks once on each: WebSockets or streams of events if to is
// one, else connections over HTTP/1.1. On an error it returns those that are open, too.
func (g Generator) Hold(ctx context.Context, to Target, n, atOnce int) (Held, error) {
	open, err := g.requests(to)
	switch {
	case strings.HasSuffix(to.URL, role.SocketResource):
		open, err = g.socket(to), nil
	case strings.HasSuffix(to.URL, role.QuietResource):
		open, err = g.events(to), nil
	}
	if err != nil {
		return nil, err
	}
	all := make(Held, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range all {
		group.Go(func() error {
			one, err := open(ctx)
			if err != nil {
				return err
			}
			all[i] = one
			return one.ask()
		})
	}
	return all, group.Wait()
}

// Ask asks once on each connection, one after the other.
func (all Held) Ask() error {
	for _, one := range all {
		if err := one.ask(); err != nil {
			return err
		}
	}
	return nil
}

// Close closes all.
func (all Held) Close() {
	for _, one := range all {
		if one != nil {
			one.close()
		}
	}
}

// Ended waits until the server has ended each, which must be streams of events.
func (all Held) Ended() error {
	for _, one := range all {
		stream, ok := one.(*heldEvents)
		if !ok {
			return fmt.Errorf("%T never tells that it has ended", one)
		}
		overdue := time.AfterFunc(heldAnswers, stream.close)
		_, err := io.Copy(io.Discard, stream.events)
		if !overdue.Stop() {
			return fmt.Errorf("a stream has not ended after %v: %w", heldAnswers, err)
		}
	}
	return nil
}

// requests returns a function that opens a connection over HTTP/1.1.
func (g Generator) requests(to Target) (func(context.Context) (held, error), error) {
	at, err := url.Parse(to.URL)
	if err != nil {
		return nil, err
	}
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: g.roots, NextProtos: []string{"http/1.1"}}}
	request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n",
		at.RequestURI(), at.Host, strings.Join(to.Headers, "\r\n"))
	return func(ctx context.Context) (held, error) {
		conn, err := dialer.DialContext(ctx, "tcp", at.Host)
		if err != nil {
			return nil, err
		}
		return &heldRequests{conn, request}, nil
	}, nil
}

// heldRequests is a connection and the request that is sent on it.
type heldRequests struct {
	conn    net.Conn
	request string
}

// ask implements held. The answer must be 200.
func (one *heldRequests) ask() error {
	if err := one.conn.SetDeadline(time.Now().Add(heldAnswers)); err != nil {
		return err
	}
	if _, err := io.WriteString(one.conn, one.request); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(one.conn), nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s, want 200", response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

func (one *heldRequests) close() { _ = one.conn.Close() } // it was only held

// socket returns a function that opens a WebSocket.
func (g Generator) socket(to Target) func(context.Context) (held, error) {
	transport := g.transport("HTTP/1.1")
	return func(ctx context.Context) (held, error) {
		socket, err := dialSocket(ctx, transport, to)
		if err != nil {
			return nil, err
		}
		return &heldSocket{socket}, nil
	}
}

// heldSocket is a WebSocket of the application that sends messages back.
type heldSocket struct{ socket *websocket.Conn }

// ask implements held. A message must come back.
func (one *heldSocket) ask() error {
	ctx, cancel := context.WithTimeout(context.Background(), heldAnswers)
	defer cancel()
	return echo(ctx, one.socket)
}

func (one *heldSocket) close() { _ = one.socket.CloseNow() } // it was only held

// events returns a function that opens a stream of events over HTTP/1.1.
func (g Generator) events(to Target) func(context.Context) (held, error) {
	transport := g.transport("HTTP/1.1")
	return func(context.Context) (held, error) {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, to.URL, http.NoBody)
		if err != nil {
			return nil, err
		}
		request.Header = Headers(to.Headers)
		response, err := transport.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		one := &heldEvents{response.Body, bufio.NewReaderSize(response.Body, 256)}
		if response.StatusCode != http.StatusOK {
			one.close()
			return nil, fmt.Errorf("the answer is %s, want 200", response.Status)
		}
		return one, nil
	}
}

// heldEvents is a stream of events that come rarely.
type heldEvents struct {
	body   io.Closer
	events *bufio.Reader
}

// ask implements held. An event must come.
func (one *heldEvents) ask() error {
	overdue := time.AfterFunc(role.QuietPause+heldAnswers, one.close)
	defer overdue.Stop()
	for {
		line, err := one.events.ReadString('\n')
		if err != nil {
			return fmt.Errorf("no event comes: %w", err)
		}
		if strings.HasPrefix(line, "data: ") {
			return nil
		}
	}
}

func (one *heldEvents) close() { _ = one.body.Close() } // it was only held
