package acme

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fuzzNames are files and folders of each other, and names that begin alike.
var fuzzNames = []string{"a", "a/b", "a/b/c", "a/b/d", "a/bb", "ab/c", "e", "a/b/c/f"}

// FuzzStorage reads its input as a program of operations, by either of two
// instances, and runs it beside a map from name to content. What is asked of
// the Storage must be what the map holds at all times.
func FuzzStorage(f *testing.F) {
	f.Add([]byte{opStore, 0, opStore, 1, opDelete, 0, opAsk, 0})
	f.Add([]byte{opStore, 2, opStore, 3, opStore, 4, opDelete, 1, opAsk, 1, opStore, 2, opDelete, 2})
	f.Add([]byte{opStore | otherInstance, 7, opDelete, 2, opStore, 6, opDelete | otherInstance, 5, opAsk, 7})
	f.Fuzz(func(t *testing.T, program []byte) {
		memory := newMemory(t)
		instances := []*Storage{NewStorage(memory, newBox(t, "a"), time.Now), NewStorage(memory, newBox(t, "a"), time.Now)}
		model := map[string]string{}
		for step := 0; len(program) >= 2 && step < 32; step++ {
			op, name := program[0], fuzzNames[int(program[1])%len(fuzzNames)]
			program = program[2:]
			s := instances[op/otherInstance%2]
			switch op % 3 {
			case opStore:
				content := fmt.Sprintf("%d", step)
				put(t, s, name, content)
				model[name] = content
			case opDelete:
				remove(t, s, name)
				maps.DeleteFunc(model, func(file, _ string) bool { return file == name || strings.HasPrefix(file, name+"/") })
			}
			wantModel(t, s, name, model)
		}
		wantModel(t, instances[0], "", model)
		for _, name := range fuzzNames {
			wantModel(t, instances[1], name, model)
		}
	})
}

const (
	opStore = iota
	opDelete
	opAsk

	otherInstance = 3
)

// wantModel compares all that can be asked about a name with the model.
func wantModel(t *testing.T, s *Storage, name string, model map[string]string) {
	t.Helper()
	content, isFile := model[name]
	got, err := s.Load(t.Context(), name)
	if isFile != (err == nil) || !isFile && !errors.Is(err, fs.ErrNotExist) || string(got) != content {
		t.Fatalf("Load(%q) = %q, %v; the model has %v", name, got, err, model)
	}
	for _, recursive := range []bool{false, true} {
		want := modelList(model, name, recursive)
		got, err := s.List(t.Context(), name, recursive)
		if diff := cmp.Diff(want, got); diff != "" || (len(want) == 0) != errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("List(%q, %t): %v; the model has %v\n%s", name, recursive, err, model, diff)
		}
	}
	there := isFile || len(modelList(model, name, true)) > 0
	info, err := s.Stat(t.Context(), name)
	if there != (err == nil) || there && (info.IsTerminal != isFile || info.Size != int64(len(content))) || s.Exists(t.Context(), name) != there {
		t.Fatalf("Stat(%q) = %+v, %v; the model has %v", name, info, err, model)
	}
}

// modelList is List, sorted; nil if there is nothing.
func modelList(model map[string]string, folder string, recursive bool) []string {
	found := map[string]bool{}
	for file := range model {
		parts := strings.Split(file, "/")
		depth := 0
		if folder != "" {
			depth = strings.Count(folder, "/") + 1
		}
		for n := depth + 1; n <= len(parts) && strings.Join(parts[:depth], "/") == folder; n++ {
			if recursive || n == depth+1 {
				found[strings.Join(parts[:n], "/")] = true
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(found))
}
