// The worker of the page Publish. It gives the program, which is written for files, the chosen recordings as files: those
// of the member's device, which are read piece by piece, and those in memory that the program writes. Its policy lets it
// load scripts of this service and nothing else, so that nothing that it reads can leave the device.
"use strict";

(function () {
  var files = new Map([["", { mode: 0o40755 }], ["recordings", { mode: 0o40755 }]]);
  var handles = new Map(), last = 100, reader = new FileReaderSync(), text = new TextDecoder();
  var pieceBytes = 1 << 18;
  var flag = { O_RDONLY: 0, O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_EXCL: 128, O_TRUNC: 512, O_APPEND: 1024, O_DIRECTORY: 65536 };

  function fail(code) {
    var error = new Error(code);
    error.code = code;
    throw error;
  }
  function clean(path) { return path.split("/").filter(function (part) { return part && part !== "."; }).join("/"); }
  function isFolder(file) { return (file.mode & 0o40000) !== 0; }
  function find(path) { return files.get(clean(path)) || fail("ENOENT"); }
  function handle(fd) { return handles.get(fd) || fail("EBADF"); }
  function inside(path) {
    var under = path && path + "/";
    return Array.from(files.keys()).filter(function (name) { return name && name.startsWith(under); });
  }
  function stat(file) {
    var size = file.chunks ? file.chunks.reduce(function (sum, chunk) { return sum + chunk.length; }, 0) : file.blob ? file.blob.size : 0;
    return {
      dev: 0, ino: 0, mode: file.mode, nlink: 1, uid: 0, gid: 0, rdev: 0, size: size, blksize: 4096, blocks: 0,
      atimeMs: 0, mtimeMs: Date.now(), ctimeMs: 0, isDirectory: function () { return isFolder(file); }
    };
  }

  var calls = {
    open: function (path, flags, mode) {
      var name = clean(path), file = files.get(name);
      if (file && (flags & flag.O_CREAT) && (flags & flag.O_EXCL)) {
        fail("EEXIST");
      }
      if (!file) {
        if (!(flags & flag.O_CREAT)) {
          fail("ENOENT");
        }
        files.set(name, file = { mode: 0o100000 | mode, blob: new Blob([]) });
      }
      if ((flags & flag.O_DIRECTORY) && !isFolder(file)) {
        fail("ENOTDIR");
      }
      if (flags & (flag.O_WRONLY | flag.O_RDWR)) {
        file.chunks = flags & flag.O_TRUNC || !file.blob.size ? [] : fail("EINVAL"); // the program replaces files
      }
      handles.set(++last, { file: file, at: 0, from: 0, piece: new Uint8Array(0) });
      return last;
    },
    // A file that is written becomes a blob, which the browser may keep on disk.
    close: function (fd) {
      var file = handle(fd).file;
      if (file.chunks) {
        file.blob = new Blob(file.chunks);
        delete file.chunks;
      }
      handles.delete(fd);
    },
    read: function (fd, buffer, offset, length, position) {
      var h = handle(fd), blob = h.file.blob, at = position === null ? h.at : position;
      if (at < h.from || at >= h.from + h.piece.length) {
        if (at >= blob.size) {
          return 0;
        }
        try {
          h.piece = new Uint8Array(reader.readAsArrayBuffer(blob.slice(at, at + pieceBytes)));
        } catch (e) {
          fail("EIO"); // it was changed or removed since it was chosen
        }
        h.from = at;
      }
      var part = h.piece.subarray(at - h.from, at - h.from + length);
      buffer.set(part, offset);
      h.at = position === null ? at + part.length : h.at;
      return part.length;
    },
    write: function (fd, buffer, offset, length) {
      var bytes = buffer.slice(offset, offset + length);
      if (fd < 3) {
        console.error(text.decode(bytes)); // of a program that fails
      } else {
        handle(fd).file.chunks.push(bytes);
      }
      return length;
    },
    stat: function (path) { return stat(find(path)); },
    fstat: function (fd) { return stat(handle(fd).file); },
    mkdir: function (path, mode) {
      if (files.has(clean(path))) {
        fail("EEXIST");
      }
      files.set(clean(path), { mode: 0o40000 | mode });
    },
    readdir: function (path) {
      var name = clean(path), skip = name && name.length + 1;
      return inside(name).map(function (file) { return file.slice(skip || 0); }).filter(function (file) { return !file.includes("/"); });
    },
    rename: function (from, to) {
      files.set(clean(to), find(from));
      files.delete(clean(from));
    },
    unlink: function (path) { return isFolder(find(path)) ? fail("EPERM") : files.delete(clean(path)); },
    rmdir: function (path) { return find(path) && inside(clean(path)).length ? fail("ENOTEMPTY") : files.delete(clean(path)); },
    chmod: function (path, mode) { find(path).mode = find(path).mode & ~0o7777 | mode; },
    fchmod: function (fd, mode) { handle(fd).file.mode = handle(fd).file.mode & ~0o7777 | mode; },
    fsync: function () {}
  };
  calls.lstat = calls.stat;

  self.fs = { constants: flag };
  Object.keys(calls).forEach(function (name) {
    self.fs[name] = function () {
      var args = Array.from(arguments), done = args.pop(), result;
      try {
        result = calls[name].apply(null, args);
      } catch (e) {
        e.code = e.code || "EIO";
        return done(e);
      }
      done(null, result);
    };
  });

  function remove(path) {
    inside(path).concat(path).forEach(function (name) { files.delete(name); });
  }
  function blob(path) { return files.has(path) ? files.get(path).blob : null; }

  // What the program says of files, in the order in which the page has it in the language of its reader.
  var messages = [
    "the file is cut short or damaged: what was recorded before is imported",
    "the checksum of the file is wrong: values may be damaged",
    "points without a time are left out: {n}",
    "points without a time: {n}, whose times are worked out from their distances",
    "the date does not turn at midnight: samples that are taken as a day later: {n}",
    "samples that go back in time are left out: {n}",
    "the clock jumped by more than a day: samples on the other side are left out: {n}",
    "positions within the same second as another are left out: {n}",
    "points on their own are left out: {n}",
    "samples from parts of the file that are not an activity are left out: {n}",
    "impossible positions are left out: {n}",
    "impossible elevations are left out: {n}",
    "impossible body values are left out: {list}",
    "the speeds in the file do not match distances and times in metres per second: they are recalculated",
    "the totals of the device do not match the samples: they are recalculated",
    "the device counted {a} km, the track has {b} km: its distance is left out",
    "stretches covered impossibly fast are not counted: {n}, of {b} km",
    "a rest of more than a day: imported as {n} activities",
    "{n} values of an unsupported kind: {kind}",
    "{n} messages of an unsupported kind: {kind}",
    "it is a plan: its times cannot be those of a recording. --planned imports it, without a duration",
    "the track has no usable times: it was planned and not recorded",
    "no recorded activity in this file",
    "not a GPX, TCX or FIT file",
    "too little of the track is left outside your places: publish it as no_gps",
    "impossible speeds are left out",
    "{n} km in no time: the distance is left out",
    "the file says it began on {date}: the clock of the device was wrong",
    "a FIT file of settings, a course or a workout, but no recorded activity",
    "a route, course or waypoints, but no recorded track",
    "all points have the same time: the track was planned and not recorded",
    "damaged on line {n}, before anything was recorded",
    "the archives are nested too deeply: unpack the outer ones, and import the folder"
  ].map(function (message) {
    var names = [], parts = message.split(/\{(\w+)\}/).map(function (part, i) {
      return i % 2 ? names.push(part) && "(.+)" : part.replace(/[.*+?^$()|[\]\\]/g, "\\$&");
    });
    return { names: names, form: new RegExp("^" + parts.join("") + "$") };
  });

  // number adds to what was said of a file which of the messages it is, and the values in it.
  function number(said) {
    said.number = messages.findIndex(function (message) {
      var found = message.form.exec(said.text);
      said.values = {};
      message.names.forEach(function (name, i) { said.values[name] = found && found[i + 1]; });
      return found;
    });
  }

  // ask has the program do something. Its answers say how far it is, until the last one, which comes with what it wrote.
  // A given file of places that the program cannot read is put away again.
  function ask(request, places) {
    var before = files.get("places.yaml");
    if (places) {
      files.set("places.yaml", { mode: 0o100600, blob: places });
    }
    if (request.do === "import") {
      ["site", "public.zip", "preview.html"].forEach(remove);
    }
    self.cairn(JSON.stringify(request), function (answer) {
      var message = JSON.parse(answer);
      if (places && message.error && before) {
        files.set("places.yaml", before);
      } else if (places && message.error) {
        files.delete("places.yaml");
      }
      if (message.all === undefined) {
        (message.Messages || []).forEach(number);
        message = { answer: message, zip: blob("public.zip"), preview: blob("preview.html"), places: blob("places.yaml") };
      }
      postMessage(message);
    });
  }

  self.onmessage = function (event) {
    var given = event.data;
    if (given.program) {
      importScripts(given.exec);
      var go = new Go();
      WebAssembly.instantiate(given.program, go.importObject).then(function (made) {
        go.run(made.instance).then(function () { postMessage({ failed: "the program has ended" }); });
        postMessage({ ready: true });
      }).catch(function (e) { postMessage({ failed: String(e) }); });
    }
    if (given.recordings) {
      inside("recordings").forEach(remove);
      given.recordings.forEach(function (file) { files.set("recordings/" + file.name, { mode: 0o100600, blob: file }); });
    }
    if (given.ask) {
      ask(given.ask, given.places);
    }
  };
})();
