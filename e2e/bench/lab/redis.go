package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"authgate/e2e/bench/process"
)

// OnRedis starts authgate on a Redis of its own, and signs in for a session.
func (l *Lab) OnRedis(ctx context.Context, n int) (*Server, error) {
	redis, address, err := l.Redis(ctx)
	if err != nil {
		return nil, err
	}
	gateway, err := l.startSignedIn(ctx, Session(), fmt.Sprintf("{driver: redis, addresses: [%q]}", address), n)
	if err != nil {
		redis.Stop()
		return nil, err
	}
	gateway.needs = []*process.Process{redis}
	keys, err := redisKeys(ctx, address)
	if err == nil && keys == 0 {
		err = errors.New("redis holds nothing after a login")
	}
	if err != nil {
		gateway.Stop()
		return nil, err
	}
	return gateway, nil
}

// Redis starts a Redis without persistence on the core of the load, and waits until it answers.
// It returns its address.
func (l *Lab) Redis(ctx context.Context) (*process.Process, string, error) {
	addresses, err := freeAddresses(1)
	if err != nil {
		return nil, "", err
	}
	host, port, err := net.SplitHostPort(addresses[0])
	if err != nil {
		return nil, "", err
	}
	p, err := process.Start(process.Pinned(ctx, l.loadCore,
		"redis-server", "--bind", host, "--port", port, "--save", "", "--dir", l.Dir))
	if err != nil {
		return nil, "", err
	}
	err = p.Await(ctx, 10*time.Second, func(ctx context.Context) error {
		_, err := redisKeys(ctx, addresses[0])
		return err
	})
	if err != nil {
		p.Stop()
		return nil, "", fmt.Errorf("redis-server does not answer: %w", err)
	}
	return p, addresses[0], nil
}

// redisKeys returns the number of keys of the Redis at address.
func redisKeys(ctx context.Context, address string) (keys int, err error) {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return 0, err
	}
	if _, err := fmt.Fprint(conn, "DBSIZE\r\n"); err != nil {
		return 0, err
	}
	_, err = fmt.Fscanf(bufio.NewReader(conn), ":%d\r\n", &keys)
	return keys, err
}
