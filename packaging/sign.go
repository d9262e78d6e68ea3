package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
)

// signatureFile has the signature of sumsFile.
const signatureFile = sumsFile + ".sig"

// namespace is in each signature of a release, so that no signature that the key made for another
// purpose is taken for one.
const namespace = "authgate-release"

// addSignature signs the checksums of a release with an SSH key. The file has the private key,
// or the public key of one in ssh-agent or on a token.
func addSignature(made map[string][]byte, key string) error {
	cmd := exec.Command("ssh-keygen", "-Y", "sign", "-n", namespace, "-f", key)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(made[sumsFile]), os.Stderr
	signature, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("ssh-keygen cannot sign with %s: %w", key, err)
	}
	made[signatureFile] = signature
	return nil
}
