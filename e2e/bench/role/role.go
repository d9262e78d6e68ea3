// Package role has the roles of bench in processes that it starts of itself. The role "upstream" is
// the application behind all servers. It does as little as an HTTP server can, and counts the
// requests that reach it. The role "bare" is the floor: a bare httputil.ReverseProxy. The role "gate" is an
// empty handler that proxies ask: it lets each request with a cookie pass.
package role

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Play serves in a role until stdin ends or a listener fails. It
// prints its addresses in one line. Because it ends with stdin, it does not outlive bench.
func Play(role string, args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet(role, flag.ContinueOnError)
	upstream := flags.String("upstream", "", "`URL` that the bare proxy forwards to")
	certificate := flags.String("certificate", "", "PEM `file`")
	key := flags.String("key", "", "PEM `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	failed := make(chan error, 3)
	var addresses []string
	serve := func(handler http.Handler, secure bool) error {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		addresses = append(addresses, listener.Addr().String())
		server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0), Protocols: &http.Protocols{}}
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetHTTP2(secure)
		server.Protocols.SetUnencryptedHTTP2(!secure)
		go func() {
			if secure {
				failed <- server.ServeTLS(listener, *certificate, *key)
			} else {
				failed <- server.Serve(listener)
			}
		}()
		return nil
	}
	var err error
	switch role {
	case "upstream":
		// One address for each of the two servers, to tell their requests apart.
		err = errors.Join(serve(newApplication(), false), serve(newApplication(), false))
	case "gate":
		err = serve(http.HandlerFunc(letPass), false)
	default:
		var target *url.URL
		if target, err = url.Parse(*upstream); err == nil {
			err = serve(bareProxy(target), true)
		}
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, strings.Join(addresses, " "))
	go func() {
		_, err := io.Copy(io.Discard, stdin)
		failed <- err
	}()
	return <-failed
}

// letPass is the handler of a gate.
func letPass(w http.ResponseWriter, r *http.Request) {
	if len(r.Header["Cookie"]) == 0 {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header()["X-Auth-User"] = []string{"alice"}
}

// application is the upstream: it does as little as an HTTP server can.
type application struct {
	answered, posted atomic.Int64
	grpc             http.Handler
}

func newApplication() *application {
	a := &application{}
	a.grpc = a.grpcEcho()
	return a
}

const (
	// CountPath answers the number of requests to other paths, and the bytes of their
	// bodies.
	CountPath = "/count"
	// WhoamiSuffix ends paths that answer the user that the gateway sends.
	WhoamiSuffix = "/whoami"
)

// Body is a small answer.
const Body = `{"message": "This is what was asked for, in as many bytes as a small answer of an API has."}` + "\n"

func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == CountPath:
		fmt.Fprintln(w, a.answered.Load(), a.posted.Load())
	case strings.HasSuffix(r.URL.Path, WhoamiSuffix):
		fmt.Fprint(w, cmp.Or(r.Header.Get("X-Auth-User"), r.Header.Get("X-Forwarded-User")))
	default:
		a.serve(w, r)
	}
}

func (a *application) serve(w http.ResponseWriter, r *http.Request) {
	switch path.Base(r.URL.Path) {
	case SocketResource:
		a.echo(w, r)
	case EventsResource:
		a.events(w, r, eventPause)
	case QuietResource:
		a.events(w, r, QuietPause)
	case GRPCResource:
		a.grpc.ServeHTTP(w, r)
	default:
		a.answer(w, r)
	}
}

func (a *application) answer(w http.ResponseWriter, r *http.Request) {
	posted, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return // the client has left
	}
	a.posted.Add(posted)
	a.answered.Add(1)
	resource := path.Base(r.URL.Path)
	if resource == UploadResource {
		fmt.Fprintln(w, posted)
		return
	}
	size, large := strings.CutSuffix(resource, "MiB")
	mebibytes, err := strconv.Atoi(size)
	if !large || err != nil {
		w.Header()["Content-Type"] = []string{"application/json"}
		_, _ = io.WriteString(w, Body) // an error means that the client has left
		return
	}
	w.Header()["Content-Type"] = []string{"application/octet-stream"}
	w.Header()["Content-Length"] = []string{strconv.Itoa(mebibytes * len(mebibyte))}
	for range mebibytes {
		if _, err := w.Write(mebibyte[:]); err != nil {
			return
		}
	}
}

// mebibyte is a part of large answers.
var mebibyte [1 << 20]byte

// bareProxy forwards everything to target as fast as ReverseProxy can.
func bareProxy(target *url.URL) http.Handler {
	transport := &http.Transport{
		MaxIdleConnsPerHost: 256,
		DisableCompression:  true,
	}
	if target.Scheme == "h2c" {
		target.Scheme = "http"
		transport.Protocols = &http.Protocols{}
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
		},
		Transport:  transport,
		BufferPool: &buffers{sync.Pool{New: func() any { return new([32 << 10]byte) }}},
		ErrorLog:   log.New(io.Discard, "", 0),
	}
}

type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte { return b.pool.Get().(*[32 << 10]byte)[:] }

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) { b.pool.Put((*[32 << 10]byte)(buffer)) }
