// Passkeys. A form with data-passkey="create" or data-passkey="get" is hidden until this
// script shows it, in browsers that know passkeys. When it is submitted, the script fetches
// options from data-options, asks the authenticator, and sends the form with its answer in the
// field "credential". What the server gives and takes is the JSON of WebAuthn Level 3, which not
// all browsers and password managers can read and write by themselves.
(() => {
  if (!window.PublicKeyCredential || !navigator.credentials || !window.fetch) {
    return;
  }

  const bytes = (text) =>
    Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const listed = (list) => (list || []).map((c) => ({ ...c, id: bytes(c.id) }));

  const creation = (json) => ({
    ...json,
    challenge: bytes(json.challenge),
    user: { ...json.user, id: bytes(json.user.id) },
    excludeCredentials: listed(json.excludeCredentials),
  });
  const request = (json) =>
    ({ ...json, challenge: bytes(json.challenge), allowCredentials: listed(json.allowCredentials) });

  const optional = (value) => {
    try {
      return value();
    } catch {
      return undefined;
    }
  };

  // Password managers answer with objects of their own. What these inherit from the objects of the
  // browser throws, toJSON above all. So the answer is read one member at a time, and what no
  // sign-in needs may be missing.
  function answer({ id, response }, created) {
    const clientDataJSON = text(response.clientDataJSON);
    return {
      id,
      rawId: id,
      type: "public-key",
      clientExtensionResults: {},
      response: created ? {
        clientDataJSON,
        attestationObject: text(response.attestationObject),
        transports: optional(() => Array.from(response.getTransports(), String)),
      } : {
        clientDataJSON,
        authenticatorData: text(response.authenticatorData),
        signature: text(response.signature),
        userHandle: optional(() => response.userHandle ? text(response.userHandle) : undefined),
      },
    };
  }

  async function options(form) {
    const headers = { "Content-Type": "application/json", Accept: "application/json" };
    const token = form.elements.namedItem("csrf_token");
    if (token) {
      headers["X-CSRF-Token"] = token.value;
    }
    const response = await fetch(form.dataset.options, { method: "POST", headers, body: "{}" });
    if (!response.ok) {
      return null;
    }
    return response.json();
  }

  const creates = (form) => form.dataset.passkey === "create";

  async function send(form) {
    const json = await options(form);
    if (!json) { // the page of the answer says why, or leads on
      form.submit();
      return;
    }
    finish(form, creates(form)
      ? await navigator.credentials.create({ publicKey: creation(json) })
      : await navigator.credentials.get({ publicKey: request(json) }));
  }

  function finish(form, credential) {
    const remember = form.elements.namedItem("remember");
    const ticked = document.querySelector("input[type=checkbox][name=remember]");
    if (remember && ticked) {
      remember.value = String(ticked.checked);
    }
    form.elements.namedItem("credential").value = JSON.stringify(answer(credential, creates(form)));
    form.submit();
  }

  // A browser that can offers the passkeys among what it fills in. It waits for that until
  // the button is used instead.
  let waiting = null;

  async function offered(form) {
    const available = PublicKeyCredential.isConditionalMediationAvailable;
    if (!available || !(await PublicKeyCredential.isConditionalMediationAvailable())) {
      return null;
    }
    const json = await options(form);
    if (!json) {
      return null;
    }
    waiting = new AbortController();
    return navigator.credentials.get({ publicKey: request(json), mediation: "conditional", signal: waiting.signal });
  }

  for (const form of document.querySelectorAll("form[data-passkey]")) {
    const failed = form.querySelector("[data-failed]");
    const fail = () => { failed.hidden = false; };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      failed.hidden = true;
      if (waiting) {
        waiting.abort();
      }
      send(form).catch(fail);
    });
    form.closest("[data-passkeys]").hidden = false;
    if ("autofill" in form.dataset) {
      offered(form).catch(() => null) // the button is there
        .then((credential) => credential && finish(form, credential)).catch(fail);
    }
  }
})();
