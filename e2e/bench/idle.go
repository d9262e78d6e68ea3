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

	"golang.org/x/sync/errgroup"
)

const (
	// idleConnections is how many a server holds for a row about memory.
	idleConnections = 2000
	// idleSettles is how long they are idle before the memory is read.
	idleSettles = 2 * time.Second
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
		if open[i], err = l.openIdle(ctx, side.address, side.target(t)); err != nil {
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
type idlers []*idler

// idler is a connection and the request that is sent on it.
type idler struct {
	conn    net.Conn
	request string
}

// openIdle opens the connections, a few at a time, and asks once on each.
func (l *lab) openIdle(ctx context.Context, address string, to target) (idlers, error) {
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: l.roots, NextProtos: []string{"http/1.1"}}}
	path := strings.TrimPrefix(to.url, "https://"+address)
	request := "GET " + path + " HTTP/1.1\r\nHost: " + address + "\r\n" + strings.Join(to.headers, "\r\n") + "\r\n\r\n"
	all := make(idlers, idleConnections)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(l.connections)
	for i := range all {
		group.Go(func() error {
			conn, err := dialer.DialContext(ctx, "tcp", address)
			if err != nil {
				return err
			}
			all[i] = &idler{conn, request}
			return all[i].ask()
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
			_ = one.conn.Close() // it was only held
		}
	}
}

// ask sends the request and reads the answer, which must be 200.
func (one *idler) ask() error {
	if err := one.conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
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
