package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// redisAgainstSQLite is the nth round of authgate on Redis against authgate on SQLite,
// on fresh servers.
func (l *lab) redisAgainstSQLite(ctx context.Context, n int) (pair, error) {
	redis, address, err := l.startRedis(ctx)
	if err != nil {
		return pair{}, err
	}
	defer redis.stop()
	subject, subjectGuarded, err := l.startSignedIn(ctx, session(), fmt.Sprintf("{driver: redis, addresses: [%q]}", address), 0)
	if err != nil {
		return pair{}, err
	}
	defer subject.process.stop()
	keys, err := redisKeys(ctx, address)
	if err != nil {
		return pair{}, err
	}
	if keys == 0 {
		return pair{}, errors.New("redis holds nothing after a login")
	}
	other, otherGuarded, err := l.startSignedIn(ctx, session(), onSQLite, 1)
	if err != nil {
		return pair{}, err
	}
	defer other.process.stop()
	p, err := l.measure(ctx, n, subject, other, session().resource())
	if err != nil {
		return p, err
	}
	return p, errors.Join(subjectGuarded(), otherGuarded())
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
