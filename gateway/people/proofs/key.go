package proofs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"authgate/gateway/store/seal"
)

// keySuffix makes the name of the key file from that of the file of accounts.
const keySuffix = ".key"

// Key encrypts TOTP secrets. It is store.encryption_key, if the configuration has that, or
// else in a file beside the file of accounts: all instances that share the accounts share it,
// and it is not lost with the store or data_dir. The first encryption of a secret makes the file.
//
// The key of the file still opens its secrets after another one is configured.
type Key struct {
	configured *seal.Box // nil: none is configured
	accounts   string    // the path of the file of accounts; may be a link
}

// NewKey returns the key for the accounts in a file. secret is that of the configuration,
// which may be empty.
func NewKey(secret, accounts string) (*Key, error) {
	k := &Key{accounts: accounts}
	if secret == "" {
		return k, nil
	}
	box, err := seal.New([]byte(secret))
	if err != nil {
		return nil, fmt.Errorf("store.encryption_key: %w", err)
	}
	k.configured = box
	return k, nil
}

// path returns the path of the key file.
func (k *Key) path() (string, error) {
	target, err := filepath.EvalSymlinks(k.accounts)
	return target + keySuffix, err
}

// sealing returns the box that encrypts new secrets.
func (k *Key) sealing() (*seal.Box, error) {
	if k.configured != nil {
		return k.configured, nil
	}
	path, err := k.path()
	if err != nil {
		return nil, err
	}
	secret, err := seal.Keep(path)
	if err != nil {
		return nil, err
	}
	return k.box(path, secret)
}

// opening returns the boxes that may open the secrets that there are.
func (k *Key) opening() (boxes []*seal.Box, err error) {
	if k.configured != nil {
		boxes = append(boxes, k.configured)
	}
	path, err := k.path()
	if err != nil {
		return boxes, nil // without its target, the link leads to no key
	}
	secret, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return boxes, nil
	}
	if err != nil {
		return nil, err
	}
	box, err := k.box(path, secret)
	return append(boxes, box), err
}

func (k *Key) box(path string, secret []byte) (*seal.Box, error) {
	box, err := seal.New(secret)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; restore the file", path, err)
	}
	return box, nil
}
