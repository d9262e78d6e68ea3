package role

import (
	"fmt"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The streams of the upstream, by the last part of the path.
const (
	SocketResource = "socket"
	EventsResource = "events"
	QuietResource  = "quiet"
	GRPCResource   = "grpc"
	UploadResource = "upload"
)

// Message is the message of WebSockets, events and gRPC streams.
const Message = "a message as an application sends it, of the usual length: " +
	"a little more than one hundred and twenty bytes, with its quotes"

// eventPause is the time between two server-sent events of a stream. They are paced, because
// the cost of events that a proxy finds together is that of one.
const eventPause = 2 * time.Millisecond

// QuietPause is the time between two events of a stream at rest.
const QuietPause = time.Minute

// echo sends each message of a WebSocket back.
func (a *application) echo(w http.ResponseWriter, r *http.Request) {
	socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // Accept has answered
	}
	defer socket.CloseNow()
	for {
		kind, message, err := socket.Read(r.Context())
		if err != nil {
			return // the client has left
		}
		a.answered.Add(1)
		if err := socket.Write(r.Context(), kind, message); err != nil {
			return
		}
	}
}

// events sends an event after each pause, the first one at once, until the client leaves.
func (a *application) events(w http.ResponseWriter, r *http.Request, pause time.Duration) {
	w.Header().Set("Content-Type", "text/event-stream")
	response, pace := http.NewResponseController(w), time.NewTicker(pause)
	defer pace.Stop()
	for {
		a.answered.Add(1)
		if _, err := fmt.Fprintf(w, "data: %s\n\n", Message); err != nil {
			return
		}
		if err := response.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-pace.C:
		}
	}
}

// grpcEcho returns a server that sends each message of a stream back.
func (a *application) grpcEcho() *grpc.Server {
	return grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		for {
			var m wrapperspb.StringValue
			if err := stream.RecvMsg(&m); err != nil {
				return err
			}
			a.answered.Add(1)
			if err := stream.SendMsg(&m); err != nil {
				return err
			}
		}
	}))
}
