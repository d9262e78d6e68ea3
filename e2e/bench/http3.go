package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/quic-go/quic-go/http3"
)

// overHTTP3 returns the rows of HTTP/3, over Caddy as a plain proxy. Net/http has no floor for it.
func (l *lab) overHTTP3() []comparison {
	get := task{name: "GET HTTP/3", load: traffic{l, "http3", l.connections, 0}, resource: "resource"}
	post := task{name: "POST 1 KiB HTTP/3", load: traffic{l, "http3 post", l.connections, 0}, resource: "resource",
		posted: postedBytes, headers: []string{"Sec-Fetch-Site: same-origin"}}
	m := session()
	m.http3 = true
	var all []comparison
	for _, t := range []task{get, post} {
		all = append(all, comparison{task: t, subject: "session", other: "Caddy", goal: 1, most: l.maxRatio,
			start: [2]starter{l.authgateFor(m), l.startCaddy}})
	}
	return all
}

func getHTTP3(ctx context.Context, j *journey) error { return j.overHTTP3(ctx, http.MethodGet, nil) }

func postHTTP3(ctx context.Context, j *journey) error {
	return j.overHTTP3(ctx, http.MethodPost, bytes.Repeat([]byte("x"), postedBytes))
}

// overHTTP3 sends requests on one connection, several at a time.
func (j *journey) overHTTP3(ctx context.Context, method string, body []byte) error {
	config, err := j.trust()
	if err != nil {
		return err
	}
	config.MinVersion = tls.VersionTLS13
	transport := &http3.Transport{TLSClientConfig: config, DisableCompression: true}
	defer transport.Close()
	all, failures := make([]journey, streams), make([]error, streams)
	var group sync.WaitGroup
	for i := range all {
		all[i].options = j.options
		group.Go(func() {
			failures[i] = all[i].exchanges(func() error { return all[i].askHTTP3(ctx, transport, method, body) })
		})
	}
	group.Wait()
	for i, one := range all {
		if failures[i] != nil {
			return failures[i]
		}
		j.messages, j.bytes, j.times = j.messages+one.messages, j.bytes+one.bytes, append(j.times, one.times...)
	}
	return nil
}

// askHTTP3 sends a request and reads the answer, which must be 200.
func (j *journey) askHTTP3(ctx context.Context, transport http.RoundTripper, method string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, method, j.options.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for _, line := range j.options.headers {
		request.Header.Set(header(line))
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s, want 200", response.Status)
	}
	n, err := io.Copy(io.Discard, response.Body)
	j.bytes += n
	return err
}
