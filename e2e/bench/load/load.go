// Package load keeps requests to a server going from one core, and counts the answers: by wrk
// over HTTP/1.1, by h2load over HTTP/2, and by clients of its own for HTTP/3, large bodies and
// streams. It also has clients in the process of bench, for connections that are held and for
// many users. A load fails with its first request that fails. The resources that a server
// needs for a load are read elsewhere.
package load

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"authgate/e2e/bench/process"
)

// PostedBytes is the length of a body that is posted.
const PostedBytes = 1 << 10

// CalledBytes is the length of the message that calls a tool.
const CalledBytes = 2 << 10

// callOfTool is that message: an agent writes a note, of a title, tags and some text.
func callOfTool() string {
	const begin = `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"search_notes","arguments":` +
		`{"title":"A note","tags":["work","later"],"limit":20,"open":true,"text":"`
	const line = `Each line says as much as people write, with a \"quotation\" now and then.\n`
	const end = `"},"_meta":{"progressToken":17}}}`
	text := begin + strings.Repeat(line, (CalledBytes-len(begin+end))/len(line))
	return text + strings.Repeat("x", CalledBytes-len(text+end)) + end
}

// Load keeps requests to one server going.
type Load interface {
	// Run asks to for a time. A failed request is an error.
	Run(ctx context.Context, to Target, lasting time.Duration) (Result, error)
}

// Target is the request of a load.
type Target struct {
	URL     string
	Headers []string // a line each
}

// Result is the result of a load.
type Result struct {
	Requests int64         // that were answered
	Bytes    int64         // of all answers; not over HTTP/2
	P50, P99 time.Duration // latency
}

// Percentiles sorts times, and returns the median and the 99th percentile.
func Percentiles(times []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(times)
	if n := len(times); n > 0 {
		p50, p99 = times[n*50/100], times[n*99/100]
	}
	return p50, p99
}

// Headers returns the header that lines make.
func Headers(lines []string) http.Header {
	all := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		all.Set(name, value)
	}
	return all
}

// Generator makes loads on a core.
type Generator struct {
	core, dir   string
	certificate string // file
	roots       *x509.CertPool
	measured    time.Duration
}

// New returns a generator on a core, with files in dir. Its clients trust the certificate in a
// PEM file. Servers are measured for a time.
func New(core, dir, certificate string, measured time.Duration) (Generator, error) {
	g := Generator{core: core, dir: dir, certificate: certificate, measured: measured}
	for name, text := range map[string]string{
		doneFile:    doneScript,
		postFile:    fmt.Sprintf(postScript, g.file(postedFile)) + doneScript,
		formFile:    formScript + doneScript,
		refreshFile: refreshScript + doneScript,
		postedFile:  strings.Repeat("x", PostedBytes),
		callFile:    fmt.Sprintf(postScript, g.file(calledFile)) + doneScript,
		calledFile:  callOfTool(),
	} {
		if err := os.WriteFile(g.file(name), []byte(text), 0o600); err != nil {
			return g, err
		}
	}
	var err error
	g.roots, err = readRoots(certificate)
	return g, err
}

func (g Generator) file(name string) string { return filepath.Join(g.dir, name) }

// run runs a program that asks to, and returns its output.
func (g Generator) run(ctx context.Context, to Target, args ...string) (string, error) {
	for _, header := range to.Headers {
		args = append(args, "--header", header)
	}
	out, err := process.Pinned(ctx, g.core, append(args, to.URL)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", filepath.Base(args[0]), err, out)
	}
	return string(out), nil
}

// readRoots returns the certificates in a PEM file.
func readRoots(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, errors.New(file + " holds no certificate")
	}
	return roots, nil
}
