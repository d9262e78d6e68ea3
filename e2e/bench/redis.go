package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// startOnRedis starts authgate on a Redis of its own, and signs in for a session.
func (l *lab) startOnRedis(ctx context.Context, n int) (*server, error) {
	redis, address, err := l.startRedis(ctx)
	if err != nil {
		return nil, err
	}
	gateway, err := l.startSignedIn(ctx, session(), fmt.Sprintf("{driver: redis, addresses: [%q]}", address), n)
	if err != nil {
		redis.stop()
		return nil, err
	}
	gateway.backing = redis
	keys, err := redisKeys(ctx, address)
	if err == nil && keys == 0 {
		err = errors.New("redis holds nothing after a login")
	}
	if err != nil {
		gateway.stop()
		return nil, err
	}
	return gateway, nil
}

// startRedis starts a Redis without persistence on the core of the load, and waits
// until it answers.
func (l *lab) startRedis(ctx context.Context) (*process, string, error) {
	addresses, err := freeAddresses(1)
	if err != nil {
		return nil, "", err
	}
	host, port, err := net.SplitHostPort(addresses[0])
	if err != nil {
		return nil, "", err
	}
	p, err := start(pinned(ctx, l.loadCore, "redis-server", "--bind", host, "--port", port, "--save", "", "--dir", l.dir))
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		_, err := redisKeys(ctx, addresses[0])
		if err == nil {
			return p, addresses[0], nil
		}
		select {
		case <-p.ended:
			return nil, "", errors.New("redis-server has ended")
		case <-ctx.Done():
			p.stop()
			return nil, "", fmt.Errorf("redis-server does not answer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
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
