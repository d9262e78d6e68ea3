package world

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// FindProgram returns the path of a program of the system. On Debian, servers are not in
// the PATH of users.
func FindProgram(t testing.TB, name string) string {
	t.Helper()
	for _, candidate := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	t.Fatalf("%s is not installed; make deps installs it", name)
	return ""
}

// Together calls do in n goroutines that begin together.
func Together(n int, do func(i int)) {
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-begin
			do(i)
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
}

// Begin starts a process. The channel is closed when it has ended.
func Begin(cmd *exec.Cmd) (<-chan struct{}, error) {
	done := make(chan struct{})
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // cmd.ProcessState has the status
		close(done)
	}()
	return done, nil
}

// Spawn is Begin for a process that ends with the test.
func Spawn(t testing.TB, cmd *exec.Cmd) (ended <-chan struct{}) {
	t.Helper()
	ended = Must(Begin(cmd))(t)
	t.Cleanup(func() { Stop(cmd, ended) })
	return ended
}

// Await requests url until the answer is 200 or the process has ended.
func Await(url string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		response, err := http.Get(url)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ended:
			return errors.New("the process has ended")
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", url, ctx.Err())
		case <-tick.C:
		}
	}
}

// Stop kills a process and waits for its end.
func Stop(cmd *exec.Cmd, done <-chan struct{}) {
	_ = cmd.Process.Kill() // it may have ended before
	<-done
}

// Until calls come until it returns true.
func Until(t testing.TB, what string, come func() bool) {
	t.Helper()
	Eventually(t, Patience, what, func() error {
		if !come() {
			return errors.New("it does not come")
		}
		return nil
	})
}

// Must returns the value of a call, or ends the test: Must(f())(t).
func Must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		NoError(t, err)
		return value
	}
}

// NoError ends the test if a call fails.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
