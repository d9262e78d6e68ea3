package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/quic-go/quic-go/http3"
)

const (
	// unreadTransfers is how many transfers wait for a side that does not read, where the
	// memory is measured.
	unreadTransfers = 40
	// unreadUploads is how many uploads wait beside a form.
	unreadUploads = 20
	// unreadSettles is how long they wait before anything is measured.
	unreadSettles = 5 * time.Second
	// formPosts is how many forms are posted for a median.
	formPosts = 201
)

// Paths of the careless application.
const (
	downloadPath = "/download" // answers for ever
	unreadPath   = "/upload"   // reads nothing of a body, and does not answer
	formPath     = "/form"     // reads the body
)

var unreadConfiguration = template.Must(template.New("").Parse(`public_url: https://{{.Address}}
listen: {https: "{{.Address}}", http3: "{{.Address}}", http: "", admin: "{{.Admin}}"}
tls: {mode: files, certificate: "{{.Certificate}}", key: "{{.Key}}"}
data_dir: data
log: {level: warn}
basic:
  users: [{username: service, password_hash: "{{.Hash}}"}]
token: {secret: "the key that signs tokens in the benchmark"}
upstreams:
  careless: {url: "{{.Upstream}}", timeout: 1h}
routes:
  - {match: /, upstream: careless, auth: [none]}
`))

// unread prints what transfers cost that a client or an application does not read: the
// memory for each pair of protocols, and the time of a form beside them.
func (l *lab) unread(ctx context.Context, stdout, stderr io.Writer) error {
	memory := [][]string{{"Client", "Application", "Unread downloads", "Unread uploads"}}
	forms := [][]string{{"Client", "Form alone", "Form beside them", "Ratio"}}
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2", "HTTP/3"} {
		for _, scheme := range []string{"http", "h2c"} {
			row := []string{protocol, map[string]string{"http": "HTTP/1.1", "h2c": "HTTP/2"}[scheme]}
			for _, path := range []string{downloadPath, unreadPath} {
				fmt.Fprintf(stderr, "  %s to %s, %s\n", protocol, row[1], path)
				added, err := l.unreadMemory(ctx, protocol, scheme, path)
				if err != nil {
					return fmt.Errorf("%s to %s: %w", protocol, row[1], err)
				}
				row = append(row, mebibytes(added))
			}
			memory = append(memory, row)
		}
		if protocol == "HTTP/1.1" { // each request has a connection
			continue
		}
		alone, beside, err := l.formTimes(ctx, protocol)
		if err != nil {
			return fmt.Errorf("a form over %s: %w", protocol, err)
		}
		ratio := fmt.Sprintf("%.2f", float64(beside)/float64(alone))
		forms = append(forms, []string{protocol, short(alone), short(beside), ratio})
	}
	_, err := io.WriteString(stdout, markdown(memory)+markdown(forms))
	return err
}

// unreadMemory returns by how much the memory of authgate rises.
func (l *lab) unreadMemory(ctx context.Context, protocol, scheme, path string) (int64, error) {
	var before, after int64
	err := l.careless(ctx, protocol, scheme, func(p *process, ask asker) error {
		var err error
		if before, err = p.memory(presentMemory); err != nil {
			return err
		}
		if err := ask.wait(ctx, unreadTransfers, path); err != nil {
			return err
		}
		after, err = p.memory(presentMemory)
		return err
	})
	return after - before, err
}

// formTimes returns the median time of a form alone, and beside uploads that the
// application does not read.
func (l *lab) formTimes(ctx context.Context, protocol string) (alone, beside time.Duration, err error) {
	err = l.careless(ctx, protocol, "http", func(_ *process, ask asker) error {
		if _, err := ask.form(ctx); err != nil { // it warms up
			return err
		}
		var err error
		if alone, err = ask.form(ctx); err != nil {
			return err
		}
		if err := ask.wait(ctx, unreadUploads, unreadPath); err != nil {
			return err
		}
		beside, err = ask.form(ctx)
		return err
	})
	return alone, beside, err
}

// careless runs f with authgate before an application that does not read.
func (l *lab) careless(ctx context.Context, protocol, scheme string, f func(*process, asker) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop() // ends what waits
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	application := &http.Server{Handler: http.HandlerFunc(careless), Protocols: new(http.Protocols)}
	application.Protocols.SetHTTP1(scheme == "http")
	application.Protocols.SetUnencryptedHTTP2(scheme == "h2c")
	go func() { _ = application.Serve(listener) }() // until Close
	defer application.Close()
	g, err := l.startConfigured(ctx, unreadConfiguration, map[string]string{
		"Certificate": l.certificate, "Key": l.key, "Upstream": scheme + "://" + listener.Addr().String(),
	}, 0)
	if err != nil {
		return err
	}
	defer g.process.stop()
	return f(g.process, asker{base: "https://" + g.address, transport: l.transport(protocol)})
}

func careless(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case downloadPath:
		for {
			if _, err := w.Write(mebibyte[:]); err != nil {
				return
			}
		}
	case unreadPath:
		<-r.Context().Done()
	default:
		_, _ = io.Copy(io.Discard, r.Body) // the client sees the answer
	}
}

// transport returns a client of one protocol.
func (l *lab) transport(protocol string) http.RoundTripper {
	config := &tls.Config{RootCAs: l.roots}
	if protocol == "HTTP/3" {
		return &http3.Transport{TLSClientConfig: config}
	}
	// As many connections are kept as there are clients, which would each open one for each request otherwise.
	t := &http.Transport{TLSClientConfig: config, Protocols: new(http.Protocols), MaxIdleConnsPerHost: 1000}
	t.Protocols.SetHTTP1(protocol == "HTTP/1.1")
	t.Protocols.SetHTTP2(protocol == "HTTP/2")
	return t
}

// asker sends requests to authgate.
type asker struct {
	base      string
	transport http.RoundTripper
}

// wait begins transfers that one side does not read, and returns when they have waited.
func (a asker) wait(ctx context.Context, transfers int, path string) error {
	failed := make(chan error, transfers)
	for range transfers {
		go func() { failed <- a.transfer(ctx, path) }()
	}
	select {
	case err := <-failed:
		return fmt.Errorf("a transfer ended: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(unreadSettles):
		return nil
	}
}

// transfer lasts until ctx ends.
func (a asker) transfer(ctx context.Context, path string) error {
	method, body := http.MethodGet, io.Reader(nil)
	if path == unreadPath {
		method, body = http.MethodPost, endless{}
	}
	r, err := http.NewRequestWithContext(ctx, method, a.base+path, body)
	if err != nil {
		return err
	}
	response, err := a.transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	<-ctx.Done()
	return ctx.Err()
}

// form returns the median time of posting a form.
func (a asker) form(ctx context.Context) (time.Duration, error) {
	body := []byte("message=" + strings.Repeat("x", postedBytes))
	times := make([]time.Duration, formPosts)
	for i := range times {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+formPath, bytes.NewReader(body))
		if err != nil {
			return 0, err
		}
		began := time.Now()
		response, err := a.transport.RoundTrip(r)
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, response.Body)
		times[i] = time.Since(began)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("%s, %w", response.Status, err)
		}
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
