package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// visitor asks a gateway as many clients do.
type visitor struct {
	url       string
	transport http.RoundTripper
}

// visit is a request. One with a body of JSON is a POST.
type visit struct {
	method, path string // of a request without a body; default GET
	from         string // the address that a proxy would name; default its own
	cookie       string
	body         []byte
}

// ask returns how long the answer took, and its status.
func (v visitor) ask(ctx context.Context, what visit) (time.Duration, int, error) {
	if what.body != nil {
		what.method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, what.method, v.url+what.path, bytes.NewReader(what.body))
	if err != nil {
		return 0, 0, err
	}
	if what.from != "" {
		r.Header.Set("X-Forwarded-For", what.from)
		r.Header.Set("X-Forwarded-Proto", "https")
	}
	if what.cookie != "" {
		r.Header.Set("Cookie", what.cookie)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if what.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	began := time.Now()
	response, err := v.transport.RoundTrip(r)
	if err != nil {
		return 0, 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return time.Since(began), response.StatusCode, errors.Join(err, response.Body.Close())
}

// wants sends a request, whose answer must have a status.
func (v visitor) wants(ctx context.Context, status int, what visit) error {
	_, got, err := v.ask(ctx, what)
	return expect(status, got, err)
}

// until calls f with pauses until the end.
func until(ctx context.Context, end time.Time, pause time.Duration, f func() error) error {
	for time.Now().Before(end) {
		if err := f(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return nil
}

func expect(want, status int, err error) error {
	if err == nil && status != want {
		err = fmt.Errorf("the answer is %d, want %d", status, want)
	}
	return err
}
