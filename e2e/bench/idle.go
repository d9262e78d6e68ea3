package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"
)

const (
	// idleConnections is how many a server holds for a row about memory.
	idleConnections = 2000
	// idleSettles is how long they are idle before the memory is read.
	idleSettles = 15 * time.Second
	// idleAnswers is how long an answer may take.
	idleAnswers = 10 * time.Second
)

// measureIdle opens connections to both servers and asks for one answer on each. It
// measures the memory that this adds and the processor time that it takes, and checks
// that all connections still answer.
func (l *lab) measureIdle(ctx context.Context, _ int, sides [2]*server, t task) (pair, error) {
	var samples [2]sample
	var open [2]idlers
	before, err := l.read(ctx, sides)
	if err != nil {
		return pair{}, err
	}
	for i, side := range sides {
		held, err := side.process.memory(presentMemory)
		if err != nil {
			return pair{}, err
		}
		samples[i].idle = -held
		defer func() { open[i].close() }()
		if open[i], err = l.openIdle(ctx, side.address, side.target(t), idleConnections); err != nil {
			return pair{}, err
		}
	}
	select {
	case <-ctx.Done():
		return pair{}, ctx.Err()
	case <-time.After(idleSettles):
	}
	after, err := l.read(ctx, sides)
	if err != nil {
		return pair{}, err
	}
	for i, side := range sides {
		held, err := side.process.memory(presentMemory)
		if err != nil {
			return pair{}, err
		}
		idle := samples[i].idle + held
		if samples[i], err = t.sample(result{requests: idleConnections}, before[i], after[i]); err != nil {
			return pair{}, err
		}
		samples[i].idle = idle
		if samples[i].peak, err = side.process.memory(peakMemory); err != nil {
			return pair{}, err
		}
		if err := open[i].ask(); err != nil {
			return pair{}, fmt.Errorf("a connection that was idle: %w", err)
		}
	}
	if samples[1].idle <= 0 {
		return pair{}, fmt.Errorf("%d connections to the floor added no memory", idleConnections)
	}
	return pair{subject: samples[0], other: samples[1]}, nil
}

// idlers are open connections to one server.
type idlers []idler

// idler is an open connection. ask asks for one answer on it.
type idler interface {
	ask() error
	close()
}

// openIdle opens n connections, a few at a time, and asks once on each.
func (l *lab) openIdle(ctx context.Context, address string, to target, n int) (idlers, error) {
	open := l.openRequests(address, to)
	if strings.HasSuffix(to.url, socketResource) {
		open = l.openSocket(to)
	}
	all := make(idlers, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(l.connections)
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

// ask asks once on each connection, one after the other.
func (all idlers) ask() error {
	for _, one := range all {
		if err := one.ask(); err != nil {
			return err
		}
	}
	return nil
}

func (all idlers) close() {
	for _, one := range all {
		if one != nil {
			one.close()
		}
	}
}

// openRequests returns what opens a connection over HTTP/1.1.
func (l *lab) openRequests(address string, to target) func(context.Context) (idler, error) {
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: l.roots, NextProtos: []string{"http/1.1"}}}
	path := strings.TrimPrefix(to.url, "https://"+address)
	request := "GET " + path + " HTTP/1.1\r\nHost: " + address + "\r\n" + strings.Join(to.headers, "\r\n") + "\r\n\r\n"
	return func(ctx context.Context) (idler, error) {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return &idleRequests{conn, request}, nil
	}
}

// idleRequests is a connection and the request that is sent on it.
type idleRequests struct {
	conn    net.Conn
	request string
}

// ask implements idler. The answer must be 200.
func (one *idleRequests) ask() error {
	if err := one.conn.SetDeadline(time.Now().Add(idleAnswers)); err != nil {
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

func (one *idleRequests) close() { _ = one.conn.Close() } // it was only held

// openSocket returns what opens a WebSocket.
func (l *lab) openSocket(to target) func(context.Context) (idler, error) {
	headers := http.Header{}
	for _, line := range to.headers {
		headers.Set(header(line))
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: l.roots}}}
	return func(ctx context.Context) (idler, error) {
		socket, _, err := websocket.Dial(ctx, to.url, &websocket.DialOptions{HTTPClient: client, HTTPHeader: headers})
		if err != nil {
			return nil, err
		}
		return &idleSocket{socket}, nil
	}
}

// idleSocket is a WebSocket of the application that sends messages back.
type idleSocket struct{ socket *websocket.Conn }

// ask implements idler. A message must come back.
func (one *idleSocket) ask() error {
	ctx, cancel := context.WithTimeout(context.Background(), idleAnswers)
	defer cancel()
	return echo(ctx, one.socket)
}

func (one *idleSocket) close() { _ = one.socket.CloseNow() } // it was only held
