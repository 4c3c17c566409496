// The page Publish. A worker runs the program (publish-worker.js); this shows what it answers. The recordings and the
// places go to the worker and nowhere else. ES2015, as cairn.js.
"use strict";

(function () {
  var root = document.getElementById("publish"), worker = null, loading = null, unsaved = false, found = [];
  var last = Promise.resolve(), waiting = null; // the last question, and who waits for its answer

  if (!root || !window.WebAssembly || !window.Worker || !document.adoptedStyleSheets) {
    return;
  }
  document.getElementById("publish-without").hidden = true;
  root.hidden = false;

  function get(id) { return document.getElementById(id); }
  function fill(text, values) { return text.replace(/\{(\w+)\}/g, function (all, key) { return values[key]; }); }
  function say(name, values) { return fill(root.getAttribute("data-" + name), values); }
  function add(parent, name, text) {
    var element = parent.appendChild(document.createElement(name));
    element.textContent = text || "";
    return element;
  }
  function empty(element) {
    while (element.firstChild) {
      element.removeChild(element.firstChild);
    }
    return element;
  }
  function link(id, blob) {
    if (get(id).href) {
      URL.revokeObjectURL(get(id).href);
    }
    get(id).href = URL.createObjectURL(blob);
  }

  // fetchProgram fetches the program piece by piece, and shows how much of it is there.
  function fetchProgram() {
    var pieces = [], size = 0;
    get("loading").hidden = false;
    return fetch(root.getAttribute("data-program"), { credentials: "same-origin" }).then(function (answer) {
      var body = answer.body.getReader();
      function next() {
        return body.read().then(function (got) {
          if (got.done) {
            return new Blob(pieces).arrayBuffer();
          }
          pieces.push(got.value);
          size += got.value.length;
          get("loaded").value = size / Number(root.getAttribute("data-size"));
          return next();
        });
      }
      return answer.ok ? next() : Promise.reject();
    });
  }

  // load starts the program, once.
  function load() {
    loading = loading || fetchProgram().then(function (program) {
      return new Promise(function (resolve, reject) {
        worker = new Worker(root.getAttribute("data-worker"));
        worker.onerror = reject;
        worker.onmessage = function (event) {
          worker.onmessage = hear;
          return event.data.ready ? resolve() : reject(event.data.failed);
        };
        worker.postMessage({ program: program, exec: root.getAttribute("data-exec") }, [program]);
      });
    }).then(function () {
      worker.onerror = function () { hear({ data: { failed: true } }); };
      get("loading").hidden = true;
    }).catch(function () {
      loading = null;
      get("loading").hidden = true;
      throw { code: "program" };
    });
    return loading;
  }

  // ask gives the worker files and has the program do something. One question is asked at a time.
  function ask(request, files) {
    last = last.catch(function () {}).then(load).then(function () {
      return new Promise(function (resolve, reject) {
        waiting = { resolve: resolve, reject: reject };
        worker.postMessage(Object.assign({ ask: request }, files));
      });
    });
    return last;
  }
  function hear(event) {
    var got = event.data;
    if (got.all) {
      get("worked").value = got.done / got.all;
      get("worked-label").textContent = say("done", { n: got.done, all: got.all });
    } else if (got.failed) {
      loading = Promise.reject({ code: "program" });
      waiting.reject({ code: "program" });
    } else if (got.answer.error) {
      waiting.reject(got.answer);
    } else {
      waiting.resolve(got);
    }
  }

  var blamed = { exists: "place-name", degrees: "place-near", unsteady: "place-at", "no-position": "place-at", "no-place": "place-name", none: "recordings" };
  // show shows an error at the field that it is about, in place of its hint, or else where id stands: in the words of
  // the page, or in those of the program, which are English.
  function show(id) {
    return function (error) {
      var known = root.hasAttribute("data-error-" + error.code) ? error.code : error.error ? "" : "program";
      var field = blamed[known] && get(blamed[known]), at = field ? add(field.parentNode, "p") : get(id);
      if (field) {
        hint(field, true);
        at.id = field.id + "-error";
        at.className = "field-error";
        at.setAttribute("role", "alert");
        field.setAttribute("aria-invalid", "true");
        field.setAttribute("aria-errormessage", at.id);
        field.focus();
      }
      at.lang = known ? document.documentElement.lang : "en";
      at.textContent = known ? say("error-" + known, {}) : error.error;
    };
  }
  function hint(field, hidden) {
    Array.from(field.parentNode.querySelectorAll(".hint")).forEach(function (p) { p.hidden = hidden; });
  }
  // clear takes all errors away.
  function clear() {
    get("place-error").textContent = get("make-error").textContent = "";
    Array.from(root.querySelectorAll("[aria-invalid]")).forEach(function (field) {
      field.removeAttribute("aria-invalid");
      field.parentNode.removeChild(get(field.id + "-error"));
      hint(field, false);
    });
  }
  function ofBlur(on) {
    Array.prototype.forEach.call(root.querySelectorAll("[data-blur]"), function (element) { element.hidden = !on; });
  }
  function blurs() { return get("privacy").value === "blur_start"; }

  function showPlaces(got) {
    var list = empty(get("places"));
    got.answer.places.forEach(function (place) {
      var row = add(list, "li"), text = add(row, "p"), button = add(row, "button", say("remove"));
      add(text, "bdi", place.name).className = "name";
      text.appendChild(document.createTextNode(" · " + say("hidden-m", { m: place.radius })));
      button.type = "button";
      button.className = "small";
      button.setAttribute("aria-label", say("remove") + ": " + place.name);
      button.addEventListener("click", function () { change({ do: "remove", name: place.name }).then(function () { get("place-name").focus(); }); });
    });
    list.hidden = !got.answer.places.length;
    get("places-keep").hidden = !got.places;
    unsaved = got.answer.changed;
    if (got.places) {
      link("places-save", got.places);
    }
  }
  function change(request, files) {
    clear();
    return ask(request, files).then(showPlaces).catch(show("place-error"));
  }

  // showPreview shows the page of the preview as it is, with its style, which reaches nothing else here.
  function showPreview(text) {
    var page = new DOMParser().parseFromString(text, "text/html"), box = get("preview"), style = new CSSStyleSheet();
    var shadow = box.shadowRoot || box.attachShadow({ mode: "open" });
    style.replaceSync(page.querySelector("style").textContent.replace(/:root/g, ":host").replace(/\nbody/, "\n:host") + ":host { display: block; padding: 1rem; }");
    Array.from(page.querySelectorAll("[data-sport]")).forEach(function (word) {
      var texts = get("sports"), text = texts && texts.content.querySelector('[data-sport="' + word.textContent + '"]'); // none on an English page
      if (text) {
        word.textContent = text.textContent;
        word.lang = document.documentElement.lang;
      }
    });
    shadow.adoptedStyleSheets = [style];
    empty(shadow);
    Array.from(page.querySelector("main").childNodes).forEach(function (node) { shadow.appendChild(document.importNode(node, true)); });
    shadow.onclick = function (event) {
      var to = event.target.getAttribute("href");
      if (to) {
        event.preventDefault();
        shadow.getElementById(to.slice(1)).scrollIntoView();
      }
    };
  }

  function showOutcome(got) {
    var o = got.answer, list = empty(get("outcome")), messages = empty(get("messages").querySelector("ul"));
    add(list, "li", say("listed", { n: o.Listed }));
    [["duplicates", o.Duplicates], ["others", o.Others], ["failed", o.Failed], ["cut", o.Cut], ["warned", o.Warned], ["dropped", o.Dropped]].forEach(function (count) {
      if (count[1]) {
        add(list, "li", say(count[0], { n: count[1] }));
      }
    });
    if (blurs()) {
      add(list, "li", say("near", { n: o.Near, all: o.Tracks }));
    }
    if (o.Common) {
      add(list, "li", say("common", { file: o.Common })).className = "box warning";
    }
    var texts = get("texts"); // none on an English page
    o.Messages.slice(0, 500).forEach(function (m) {
      var text = texts && texts.content.children[m.number], item = add(messages, "li", m.file + ": " + (text ? fill(text.textContent, m.values) : m.text));
      if (text) {
        item.lang = document.documentElement.lang;
      }
    });
    get("messages").hidden = !o.Messages.length;
    link("zip", got.zip);
    get("made").hidden = false;
    return new Response(got.preview).text().then(showPreview);
  }

  function make() {
    var fault = !found.length ? "none" : blurs() && unsaved ? "unsaved" : "";
    clear();
    ofBlur(blurs()); // a browser may have restored the choice
    if (fault) {
      show("place-error")({ code: fault }); // beside what saves the file
      return;
    }
    get("make").disabled = true;
    get("made").hidden = true;
    get("worked").value = 0;
    get("working").hidden = false;
    ask({
      do: "import", privacy: get("privacy").value, hide_time: get("hide-time").checked, titles: get("titles").checked,
      zone: root.getAttribute("data-zone") || Intl.DateTimeFormat().resolvedOptions().timeZone || "",
      handle: root.getAttribute("data-handle"), display_name: root.getAttribute("data-name")
    }).then(showOutcome).catch(show("make-error")).then(function () {
      get("make").disabled = false;
      get("working").hidden = true;
    });
  }

  get("recordings").addEventListener("change", function () {
    get("found").textContent = "";
    clear();
    ask({ do: "list" }, { recordings: Array.from(get("recordings").files) }).then(function (got) {
      var list = empty(get("place-at").querySelector("optgroup"));
      found = got.answer.recordings;
      found.forEach(function (name, i) { add(list, "option", name).value = i; });
      get("found").textContent = say("found", { n: found.length });
    }).catch(show("found"));
  });
  get("privacy").addEventListener("change", function () { ofBlur(blurs()); });
  // A file replaces the places, but none that were added and exist nowhere else.
  get("places-file").addEventListener("change", function () {
    var file = get("places-file").files[0];
    last.catch(function () {}).then(function () {
      if (file && unsaved) {
        get("places-file").value = "";
        clear();
        show("place-error")({ code: "unsaved" });
      } else if (file) {
        change({ do: "places" }, { places: file });
      }
    });
  });
  get("place-at").addEventListener("change", function () { get("place-near-field").hidden = get("place-at").value !== ""; });
  get("place-add").addEventListener("click", function () {
    var at = get("place-at").value;
    change({
      do: "add", name: get("place-name").value.trim(), radius: Number(get("place-radius").value),
      near: at === "" ? get("place-near").value.trim() || "?" : "", recording: Number(at)
    }).then(function () {
      get("place-name").value = root.querySelector("[aria-invalid]") || get("place-error").textContent ? get("place-name").value : "";
    });
  });
  get("places-save").addEventListener("click", function () { unsaved = false; });
  get("make").addEventListener("click", make);
  get("make").hidden = get("place-add").hidden = false;
  ofBlur(blurs());
})();
