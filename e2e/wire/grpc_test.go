package wire

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/e2e/world"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// text is the message of all methods.
type text = wrapperspb.StringValue

// silence is how long a side of a stream is silent. It is longer than the
// limits.body_pause of the test.
const silence = 4 * time.Second

// grpcStreams are the streaming methods of the service of the test.
var grpcStreams = map[string]grpc.StreamDesc{
	"Collect": {StreamName: "Collect", ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
		count := 0
		for {
			var m text
			if err := s.RecvMsg(&m); errors.Is(err, io.EOF) {
				s.SetTrailer(metadata.Pairs("x-count", fmt.Sprint(count)))
				return s.SendMsg(wrapperspb.String(fmt.Sprint(count)))
			} else if err != nil {
				return err
			}
			count++
		}
	}},
	"Tick": {StreamName: "Tick", ServerStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
		var m text
		if err := s.RecvMsg(&m); err != nil {
			return err
		}
		for i := range 3 {
			time.Sleep(silence) // what the test is about
			if err := s.SendMsg(wrapperspb.String(fmt.Sprint(m.Value, i))); err != nil {
				return err
			}
		}
		return status.Error(codes.ResourceExhausted, "three are enough")
	}},
	"Echo": {StreamName: "Echo", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, s grpc.ServerStream) error {
			for {
				var m text
				if err := s.RecvMsg(&m); errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return err
				}
				if err := s.SendMsg(&m); err != nil {
					return err
				}
				for m.Value == "talk" && s.Context().Err() == nil { // until the client leaves
					time.Sleep(silence / 10)
					_ = s.SendMsg(wrapperspb.String("on")) // the context reports it
				}
			}
		}},
}

// unary is the method that answers with the user, or with a failure.
func unary(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var m text
	if err := decode(&m); err != nil {
		return nil, err
	}
	received, _ := metadata.FromIncomingContext(ctx)
	if m.Value == "fail" {
		return nil, status.Error(codes.NotFound, "there is no such thing")
	}
	return wrapperspb.String(fmt.Sprint(m.Value, " for ", received["x-auth-user"])), nil
}

// serveGRPC serves the service of the test, at an address as net.Listen takes it.
func serveGRPC(t *testing.T, network, address string, options ...grpc.ServerOption) (served string) {
	t.Helper()
	listener := world.Must(net.Listen(network, address))(t)
	server := grpc.NewServer(options...)
	service := &grpc.ServiceDesc{ServiceName: "test.Service", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: unary}}}
	for _, stream := range grpcStreams {
		service.Streams = append(service.Streams, stream)
	}
	server.RegisterService(service, struct{}{})
	go func() { _ = server.Serve(listener) }() // until Stop
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// TestGRPC: all four kinds of calls pass through the gateway, to an upstream
// without TLS, by address or socket, and to one with a certificate authority of its own. Metadata,
// statuses and trailers arrive, streams are not cut while one side is silent for
// longer than body_pause, and the upstream learns who calls.
func TestGRPC(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	certified.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw})
	withTLS := grpc.Creds(credentials.NewServerTLSFromCert(&certified.TLS.Certificates[0]))
	socket, port := filepath.Join(t.TempDir(), "grpc.sock"), "127.0.0.1:0"
	for name, upstream := range map[string]string{
		"unix":  fmt.Sprintf("{url: %q}", "unix+h2c:"+serveGRPC(t, "unix", socket)),
		"h2c":   fmt.Sprintf("{url: %q}", "h2c://"+serveGRPC(t, "tcp", port)),
		"https": fmt.Sprintf("{url: %q, tls: {ca: upstream.pem}}", "https://"+serveGRPC(t, "tcp", port, withTLS)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := world.Prepare(t)
			g.Write("upstream.pem", string(authority))
			g.Configure(world.People + "upstreams:\n  app: " + upstream + `
limits: {body_pause: 3s}
routes:
  - {match: /, upstream: app, auth: [basic]}
`)
			g.Run()
			conn := world.Must(grpc.NewClient(strings.TrimPrefix(g.Base, "https://"),
				grpc.WithTransportCredentials(credentials.NewTLS(g.TLS()))))(t)
			t.Cleanup(func() { conn.Close() })
			callGRPC(t, conn)
		})
	}
}

func callGRPC(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), world.Patience)
	defer cancel()
	var m text
	if err := conn.Invoke(ctx, "/test.Service/Unary", wrapperspb.String("x"),
		&m); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a credential: %v", err)
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", world.BasicService, "x-auth-user", "mallory")
	if err := conn.Invoke(ctx, "/test.Service/Unary", wrapperspb.String("hello"), &m); err != nil ||
		m.Value != "hello for [service]" {
		t.Errorf("unary: %v, %q", err, m.Value)
	}
	if err := conn.Invoke(ctx, "/test.Service/Unary", wrapperspb.String("fail"), &m); status.Code(err) != codes.NotFound ||
		status.Convert(err).Message() != "there is no such thing" {
		t.Errorf("a unary call that fails: %v", err)
	}
	if err := conn.Invoke(ctx, "/test.Service/Missing", wrapperspb.String("x"),
		&m); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method that does not exist: %v", err)
	}
	begin := func(ctx context.Context, method string) grpc.ClientStream {
		desc := grpcStreams[method]
		return world.Must(conn.NewStream(ctx, &desc, "/test.Service/"+method))(t)
	}
	collect := begin(ctx, "Collect")
	for range 100 {
		world.NoError(t, collect.SendMsg(wrapperspb.String(strings.Repeat("x", 10_000))))
	}
	world.NoError(t, collect.CloseSend())
	world.NoError(t, collect.RecvMsg(&m))
	if err := collect.RecvMsg(&text{}); m.Value != "100" || !errors.Is(err, io.EOF) ||
		fmt.Sprint(collect.Trailer()["x-count"]) != "[100]" {
		t.Errorf("a stream of the client: %q, %v, trailer %v", m.Value, err, collect.Trailer())
	}
	tick := begin(ctx, "Tick")
	world.NoError(t, tick.SendMsg(wrapperspb.String("t")))
	world.NoError(t, tick.CloseSend())
	for i := range 3 {
		world.NoError(t, tick.RecvMsg(&m))
		if want := fmt.Sprint("t", i); m.Value != want {
			t.Errorf("message %d of a server that is silent in between is %q", i, m.Value)
		}
	}
	if err := tick.RecvMsg(&m); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the end of a stream of the server: %v", err)
	}
	callBoth(ctx, t, begin)
}

// callBoth calls the method with two streams.
func callBoth(ctx context.Context, t *testing.T, begin func(context.Context, string) grpc.ClientStream) {
	t.Helper()
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	var m text
	echo := begin(ctx, "Echo")
	for i := range 5 { // each answer comes before the next message
		world.NoError(t, echo.SendMsg(wrapperspb.String(fmt.Sprint(i))))
		world.NoError(t, echo.RecvMsg(&m))
		if m.Value != fmt.Sprint(i) {
			t.Errorf("message %d comes back as %q", i, m.Value)
		}
	}
	world.NoError(t, echo.SendMsg(wrapperspb.String("talk")))
	world.NoError(t, echo.RecvMsg(&m))
	for start := time.Now(); time.Since(start) < 2*silence; { // the client is silent
		world.NoError(t, echo.RecvMsg(&m))
		if m.Value != "on" {
			t.Fatalf("the message is %q", m.Value)
		}
	}
	leave()
	if err := echo.RecvMsg(&m); status.Code(err) != codes.Canceled {
		t.Errorf("after the client left: %v", err)
	}
}
