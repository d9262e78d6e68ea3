package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"authgate/e2e/bench/lab"
	"authgate/e2e/bench/load"
	"authgate/e2e/bench/process"
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

var unreadConfiguration = lab.Configuration(`, http3: "{{.Address}}"`, `data_dir: data
log: {level: warn}
basic:
  users: [{username: service, password_hash: "{{.Hash}}"}]
token: {secret: "the key that signs tokens in the benchmark"}
upstreams:
  careless: {url: "{{.Careless}}", timeout: 1h}
routes:
  - {match: /, upstream: careless, auth: [none]}
`)

// measureUnread returns the cost of transfers that a client or an application does not read:
// the memory for each pair of protocols, and the time of a form beside them.
func (b *bench) measureUnread(ctx context.Context, stderr io.Writer) (string, error) {
	memory := [][]string{{"Client", "Application", "Unread downloads", "Unread uploads"}}
	forms := [][]string{{"Client", "Form alone", "Form beside them", "Ratio"}}
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2", "HTTP/3"} {
		for _, scheme := range []string{"http", "h2c"} {
			row := []string{protocol, map[string]string{"http": "HTTP/1.1", "h2c": "HTTP/2"}[scheme]}
			for _, path := range []string{downloadPath, unreadPath} {
				fmt.Fprintf(stderr, "  %s to %s, %s\n", protocol, row[1], path)
				added, err := b.unreadMemory(ctx, protocol, scheme, path)
				if err != nil {
					return "", fmt.Errorf("%s to %s: %w", protocol, row[1], err)
				}
				row = append(row, mebibytes(added))
			}
			memory = append(memory, row)
		}
		if protocol == "HTTP/1.1" { // each request has a connection
			continue
		}
		alone, beside, err := b.formTimes(ctx, protocol)
		if err != nil {
			return "", fmt.Errorf("a form over %s: %w", protocol, err)
		}
		ratio := fmt.Sprintf("%.2f", float64(beside)/float64(alone))
		forms = append(forms, []string{protocol, short(alone), short(beside), ratio})
	}
	return markdown(memory) + markdown(forms), nil
}

// unreadMemory returns by how much the memory of authgate rises.
func (b *bench) unreadMemory(ctx context.Context, protocol, scheme, path string) (int64, error) {
	var before, after int64
	err := b.careless(ctx, protocol, scheme, func(p *process.Process, ask asker) error {
		var err error
		if before, err = p.Memory(process.PresentMemory); err != nil {
			return err
		}
		if err := ask.wait(ctx, unreadTransfers, path); err != nil {
			return err
		}
		after, err = p.Memory(process.PresentMemory)
		return err
	})
	return after - before, err
}

// formTimes returns the median time of a form alone, and beside uploads that the
// application does not read.
func (b *bench) formTimes(ctx context.Context, protocol string) (alone, beside time.Duration, err error) {
	err = b.careless(ctx, protocol, "http", func(_ *process.Process, ask asker) error {
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
func (b *bench) careless(ctx context.Context, protocol, scheme string, f func(*process.Process, asker) error) error {
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
	g, err := b.lab.Configured(ctx, unreadConfiguration,
		map[string]string{"Careless": scheme + "://" + listener.Addr().String()}, 0)
	if err != nil {
		return err
	}
	defer g.Stop()
	return f(g.Process, asker{b.loads.Visitor(g.Base(), protocol)})
}

func careless(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case downloadPath:
		for part := make([]byte, 1<<20); ; {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	case unreadPath:
		<-r.Context().Done()
	default:
		_, _ = io.Copy(io.Discard, r.Body) // the client sees the answer
	}
}

// asker sends requests to authgate.
type asker struct{ load.Visitor }

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
		method, body = http.MethodPost, load.Endless{}
	}
	r, err := http.NewRequestWithContext(ctx, method, a.URL+path, body)
	if err != nil {
		return err
	}
	response, err := a.Transport.RoundTrip(r)
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
	post := load.Visit{Path: formPath, Body: []byte("message=" + strings.Repeat("x", load.PostedBytes))}
	times := make([]time.Duration, formPosts)
	for i := range times {
		var err error
		if times[i], err = a.Want(ctx, http.StatusOK, post); err != nil {
			return 0, err
		}
	}
	median, _ := load.Percentiles(times)
	return median, nil
}
