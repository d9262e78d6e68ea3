package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// Sockets are open sockets that the process got, as from systemd, by the names of their
// listeners. They stay open there when the gateway ends: new clients wait for the next process.
type Sockets struct {
	streams map[string]net.Listener
	http3   *net.UDPConn // nil: there is none
}

// NewSockets returns the sockets in files, which it closes. A file has the name of its listener;
// a datagram socket has that of https.
func NewSockets(files []*os.File) (Sockets, error) {
	s := Sockets{streams: map[string]net.Listener{}}
	for _, file := range files {
		err := s.add(file)
		if err = errors.Join(err, file.Close()); err != nil {
			return s, fmt.Errorf("the socket %q (FileDescriptorName=, LISTEN_FDNAMES): %w", file.Name(), err)
		}
	}
	return s, nil
}

func (s *Sockets) add(file *os.File) error {
	name := file.Name()
	if name != nameHTTPS && name != nameHTTP && name != nameAdmin {
		return fmt.Errorf("no listener has this name; name it %s, %s or %s", nameHTTPS, nameHTTP, nameAdmin)
	}
	listener, err := net.FileListener(file)
	if err != nil {
		return s.addDatagrams(file)
	}
	switch kind := listener.Addr().Network(); {
	case kind == "tcp" || kind == "unix" && name == nameAdmin:
	case kind == "unix":
		return fmt.Errorf("it is at %q; this listener needs TCP, because rules go by the address of the client",
			listener.Addr())
	default:
		return fmt.Errorf("it is a socket of the kind %s; this listener needs ListenStream=", kind)
	}
	if s.streams[name] != nil {
		return errors.New("there are two; give one address, such as ListenStream=443, which is one of IPv4 and IPv6")
	}
	s.streams[name] = listener
	return nil
}

// addDatagrams adds the socket of HTTP/3.
func (s *Sockets) addDatagrams(file *os.File) error {
	packets, err := net.FilePacketConn(file)
	if err != nil {
		return fmt.Errorf("it is neither a listening socket nor one for datagrams: %w", err)
	}
	udp, ok := packets.(*net.UDPConn)
	switch {
	case !ok || file.Name() != nameHTTPS:
		return fmt.Errorf("the only datagram socket is one of UDP for HTTP/3, and its name is %s", nameHTTPS)
	case s.http3 != nil:
		return errors.New("there are two for datagrams; give one address, such as ListenDatagram=443")
	}
	s.http3 = udp
	return nil
}

// Addresses returns the addresses of the sockets, by the keys of their listeners. One at all
// addresses has no host, as in a configuration.
func (s Sockets) Addresses() map[string]string {
	addresses := map[string]string{}
	add := func(name string, at net.Addr) {
		host, port, err := net.SplitHostPort(at.String())
		if err != nil {
			return // a path
		}
		if ip := net.ParseIP(host); ip.IsUnspecified() {
			host = ""
		}
		addresses["listen."+name] = net.JoinHostPort(host, port)
	}
	for name, l := range s.streams {
		add(name, l.Addr())
	}
	if s.http3 != nil {
		add(nameHTTP3, s.http3.LocalAddr())
	}
	return addresses
}

// takeStream returns the listener of a name, once, or nil.
func (s *Sockets) takeStream(name string) net.Listener {
	listener := s.streams[name]
	delete(s.streams, name)
	return listener
}

// takeDatagrams returns the socket of HTTP/3, once, or nil.
func (s *Sockets) takeDatagrams() *net.UDPConn {
	socket := s.http3
	s.http3 = nil
	return socket
}

// left returns an error that names a socket that no listener has taken.
func (s *Sockets) left() error {
	const unused = "the socket %q (FileDescriptorName=, LISTEN_FDNAMES): listen.%s is off; " +
		"configure this listener, or stop the socket"
	for name := range s.streams {
		return fmt.Errorf(unused, name, name)
	}
	if s.http3 != nil {
		return fmt.Errorf(unused, nameHTTPS, nameHTTP3)
	}
	return nil
}

// inheritedListener is a listener on a socket that stays open elsewhere.
type inheritedListener struct {
	net.Listener
	closing sync.Once
	closed  chan struct{}
}

func newInheritedListener(l net.Listener) *inheritedListener {
	return &inheritedListener{Listener: l, closed: make(chan struct{})}
}

// pause leaves new connections to the next process. Those that were accepted go on, with their
// handshakes, until Close.
func (l *inheritedListener) pause() {
	if timed, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
		_ = timed.SetDeadline(time.Now()) // fails if it is closed
	}
}

// Accept implements net.Listener. After pause it waits for Close.
func (l *inheritedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		<-l.closed
		return nil, net.ErrClosed
	}
	return c, err
}

// Close implements net.Listener. The socket stays open.
func (l *inheritedListener) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return l.Listener.Close()
}
