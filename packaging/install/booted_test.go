package install

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// boot begins a Debian with systemd as its first process, in namespaces of its own. Its network is that of the
// test, which uses free ports. It ends with the test.
func (d *debian) boot() {
	d.t.Helper()
	const target = "/etc/systemd/system/booted.target"
	d.write(target, "[Unit]\nRequires=basic.target\nAfter=basic.target\n", 0o644)
	const begin = `set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -t tmpfs tmpfs "$1/run"
mount -t tmpfs tmpfs "$1/tmp"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t sysfs -o ro sysfs "$1/sys"
mount -t tmpfs tmpfs "$1/sys/fs/cgroup"
mkdir "$1/sys/fs/cgroup/systemd"
mount -t cgroup -o none,name=systemd cgroup "$1/sys/fs/cgroup/systemd" 2>/dev/null || {
	umount "$1/sys/fs/cgroup"
	mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup"
}
cd "$1"
pivot_root . mnt
umount --lazy /mnt
exec /usr/bin/env -i container=other /lib/systemd/systemd --system --unit=booted.target \
	--log-target=console --show-status=no`
	var log bytes.Buffer
	first := exec.Command("unshare", "--fork", "--kill-child", "--pid", "--mount", "--cgroup", "--uts", "--ipc",
		"/bin/sh", "-c", begin, "sh", d.root)
	first.Stdout, first.Stderr = &log, &log
	if err := first.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		_ = first.Process.Kill()
		_ = first.Wait() // it was killed
		if d.t.Failed() {
			d.t.Logf("systemd says\n%s", log.Bytes())
		}
	})
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", first.Process.Pid))
		if d.pid = strings.TrimSpace(string(children)); d.pid == "" {
			continue
		}
		if out, _ := d.command(nil, "systemctl", "is-active", "booted.target").Output(); string(out) == "active\n" {
			return
		}
	}
	d.t.Fatalf("systemd does not start:\n%s", log.Bytes())
}

// visitors send requests until stop, each on a connection of its own or on kept ones, and count what is lost.
type visitors struct {
	requests, connections, lost atomic.Int64
	first                       atomic.Value // the error of the first lost one
	over                        atomic.Bool
	sending                     sync.WaitGroup
}

// visit begins to send requests that the gateway answers with 401.
func (v *visitors) visit(url string, config *tls.Config) {
	for i := range 6 {
		transport := &http.Transport{
			TLSClientConfig: config.Clone(), DisableKeepAlives: i%3 == 0, Protocols: new(http.Protocols),
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				v.connections.Add(1)
				return (&net.Dialer{}).DialContext(ctx, network, address)
			},
		}
		transport.Protocols.SetHTTP2(i%3 == 1)
		transport.Protocols.SetHTTP1(i%3 != 1)
		v.sending.Go(func() {
			defer transport.CloseIdleConnections()
			for !v.over.Load() {
				v.requests.Add(1)
				// A body that cannot be sent again: a request that the client would repeat is lost.
				r, _ := http.NewRequest(http.MethodPost, url, io.LimitReader(strings.NewReader("body"), 4))
				answer, err := (&http.Client{Transport: transport, Timeout: patience}).Do(r)
				if err == nil {
					_, err = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
					if err == nil && answer.StatusCode != http.StatusUnauthorized {
						err = fmt.Errorf("the status is %s", answer.Status)
					}
				}
				if err != nil {
					v.lost.Add(1)
					v.first.CompareAndSwap(nil, err.Error())
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
}

// TestBootedUpgrade: on a Debian whose first process is systemd, with the package and its sockets, `systemctl
// restart` and an upgrade lose no request and no connection under load. A gateway that hangs is started again.
func TestBootedUpgrade(t *testing.T) {
	d := newDebian(t, "systemd", "systemd-sysv")
	file := packageFile(t, "deb")
	d.dpkg("--install", file)
	https, admin := freePort(t), freePort(t)
	d.change(config, "localhost:8443", "localhost:"+https, "127.0.0.1:8443", "127.0.0.1:"+https,
		"127.0.0.1:9090", "127.0.0.1:"+admin)
	// 443 can be in use on this machine, and no other value differs.
	d.write("/etc/systemd/system/authgate.socket.d/port.conf",
		"[Socket]\nListenStream=\nListenStream=127.0.0.1:"+https+"\n", 0o644)
	d.boot()
	d.run("systemctl", "enable", "--now", "authgate.socket", "authgate")
	ready := "http://127.0.0.1:" + admin + "/readyz"
	g := &gate{debian: d}
	g.await(ready)
	if state := d.show("Type", "NotifyAccess", "WatchdogUSec", "ActiveState"); state !=
		"Type=notify NotifyAccess=main WatchdogUSec=1min ActiveState=active" {
		t.Errorf("the service is %s", state)
	}

	v := &visitors{}
	v.visit("https://localhost:"+https+"/", &tls.Config{InsecureSkipVerify: true})
	served := func() {
		before := v.requests.Load()
		for deadline := time.Now().Add(patience); v.requests.Load() < before+200; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("no requests are answered")
			}
		}
	}
	pid := d.show("MainPID")
	for _, restart := range []func(){
		func() { d.run("systemctl", "restart", "authgate") },
		func() { d.run("systemctl", "reload", "authgate") },
		func() { d.dpkg("--install", "--force-confold", later(t, file, "+1")) },
	} {
		served()
		restart()
	}
	served()
	v.over.Store(true)
	v.sending.Wait()
	if now := d.show("MainPID"); now == pid || v.lost.Load() > 0 || v.requests.Load() == 0 {
		t.Errorf("%d of %d requests are lost, as with %v; %s was %s", v.lost.Load(), v.requests.Load(), v.first.Load(),
			now, pid)
	}
	t.Logf("%d requests, %d connections, %d lost", v.requests.Load(), v.connections.Load(), v.lost.Load())

	d.write("/etc/systemd/system/authgate.service.d/watchdog.conf",
		"[Service]\nWatchdogSec=2s\nTimeoutAbortSec=1s\n", 0o644)
	d.run("systemctl", "daemon-reload")
	d.run("systemctl", "restart", "authgate")
	d.run("sh", "-c", "kill -STOP $(systemctl show --property=MainPID --value authgate)")
	for deadline := time.Now().Add(patience); d.show("NRestarts") == "NRestarts=0"; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a gateway that hangs is not started again")
		}
	}
	g.await(ready)

	d.dpkg("--remove", "authgate")
	if out := d.run("systemctl", "list-units", "--plain", "--no-legend", "--state=active", "authgate*"); out != "" {
		t.Errorf("after the removal there is\n%s", out)
	}
}

// show returns properties of the service.
func (d *debian) show(properties ...string) string {
	d.t.Helper()
	return strings.Join(strings.Fields(d.run("systemctl", "show", "--property="+strings.Join(properties, ","),
		"authgate.service")), " ")
}
